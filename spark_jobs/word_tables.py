"""The word pipeline: one book an epoch, its words, all words counted so far, and how many have each count.

A second domain in the same store: these tables share no commit sequence with New York's, and no reader joins the two.
"""

from __future__ import annotations

from airflow_provider import Cadence, FileSource, Job, Table, TableKind, previous
from spark_jobs.nyc_tables import LANDING, ORIGIN

DOMAIN = "words"
A_BOOK = Cadence("0 */3 * * *")
"""Eight epochs a day, from the day on which New York's history begins."""

BOOK_WORDS = Table("book_words", DOMAIN)
WORD_COUNTS = Table("word_counts", DOMAIN, kind=TableKind.FULL)
COUNT_OF_COUNTS = Table("count_of_counts", DOMAIN, kind=TableKind.FULL)

LANDED_BOOKS = FileSource("landed_books", LANDING + "/books/{start:%Y-%m-%dT%H}.txt")

BOOK_WORDS_JOB = Job("book_words", inputs=[LANDED_BOOKS], outputs=[BOOK_WORDS], cadence=A_BOOK, origin=ORIGIN)
WORD_COUNTS_JOB = Job(
    "word_counts",
    inputs=[BOOK_WORDS, previous(WORD_COUNTS)],
    outputs=[WORD_COUNTS],
    cadence=A_BOOK,
    origin=ORIGIN,
)
COUNT_OF_COUNTS_JOB = Job(
    "count_of_counts", inputs=[WORD_COUNTS], outputs=[COUNT_OF_COUNTS], cadence=A_BOOK, origin=ORIGIN
)
JOBS = (BOOK_WORDS_JOB, WORD_COUNTS_JOB, COUNT_OF_COUNTS_JOB)
