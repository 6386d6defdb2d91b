"""The New York pipeline with epochs: its tables, its jobs and what they read, declared once.

DAGs and Spark programs import these values. Everything before a barrier, by the hour that a flight was to depart in or
that weather was measured in, is in.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta

from airflow_provider import (
    Cadence,
    FileSource,
    Job,
    Table,
    TableKind,
    previous,
    state,
    window,
)

DOMAIN = "nyc"
ORIGIN = datetime.fromisoformat(os.environ.get("NYC_ORIGIN", "2013-01-01T00:00:00+00:00"))
WEEK = Cadence("@weekly")
LANDING = os.environ.get("NYC_LANDING", "/srv/nyc/landing")

WEATHER = Table("weather", DOMAIN)
FLIGHTS = Table("flights", DOMAIN)
CARRIER_DAILY = Table("carrier_daily", DOMAIN)
ROUTE_DAILY = Table("route_daily", DOMAIN)
DELAY_BY_WEATHER = Table("delay_by_weather", DOMAIN, kind=TableKind.FULL)
DAILY_REPORT = Table("daily_report", DOMAIN, kind=TableKind.FULL)
CARRIER_TO_DATE = Table("carrier_to_date", DOMAIN, kind=TableKind.FULL)
CARRIER_THREE_DAYS = Table("carrier_three_days", DOMAIN, kind=TableKind.FULL)
AIRPORT_WEEKLY = Table("airport_weekly", DOMAIN, kind=TableKind.FULL)
DAILY_TABLES = (
    WEATHER,
    FLIGHTS,
    CARRIER_DAILY,
    ROUTE_DAILY,
    DELAY_BY_WEATHER,
    DAILY_REPORT,
    CARRIER_TO_DATE,
    CARRIER_THREE_DAYS,
)
"""Those with a barrier at each midnight; those of ``weather`` are hours."""
TABLES = (*DAILY_TABLES, AIRPORT_WEEKLY)

LANDED_WEATHER = FileSource("landed_weather", LANDING + "/weather/{start:%Y-%m-%dT%H}.csv")
LANDED_FLIGHTS = FileSource("landed_flights", LANDING + "/flights/{start:%Y-%m-%d}.csv")

WEATHER_JOB = Job("weather", inputs=[LANDED_WEATHER], outputs=[WEATHER], cadence="@hourly", origin=ORIGIN)
FLIGHTS_JOB = Job("flights", inputs=[LANDED_FLIGHTS], outputs=[FLIGHTS], cadence="@daily", origin=ORIGIN)
SCORECARDS_JOB = Job(
    "scorecards", inputs=[FLIGHTS], outputs=[CARRIER_DAILY, ROUTE_DAILY], cadence="@daily", origin=ORIGIN
)
DELAY_BY_WEATHER_JOB = Job(
    "delay_by_weather",
    inputs=[state(FLIGHTS), state(WEATHER)],
    outputs=[DELAY_BY_WEATHER],
    cadence="@daily",
    origin=ORIGIN,
)
DAILY_REPORT_JOB = Job(
    "daily_report",
    inputs=[state(CARRIER_DAILY), state(ROUTE_DAILY), DELAY_BY_WEATHER],
    outputs=[DAILY_REPORT],
    cadence="@daily",
    origin=ORIGIN,
)
CARRIER_TRENDS_JOB = Job(
    "carrier_trends",
    # The day itself and the two before it; and what this job wrote for the day before.
    inputs=[window(CARRIER_DAILY, timedelta(days=2)), previous(CARRIER_TO_DATE)],
    outputs=[CARRIER_TO_DATE, CARRIER_THREE_DAYS],
    cadence="@daily",
    origin=ORIGIN,
)
AIRPORT_WEEK_JOB = Job(
    "airport_week",
    # Seven slices of one table and 168 of the other; of the first week as many as there are.
    inputs=[ROUTE_DAILY, WEATHER],
    outputs=[AIRPORT_WEEKLY],
    cadence=WEEK,
    origin=WEEK.floor(ORIGIN),
)
JOBS = (
    WEATHER_JOB,
    FLIGHTS_JOB,
    SCORECARDS_JOB,
    DELAY_BY_WEATHER_JOB,
    DAILY_REPORT_JOB,
    CARRIER_TRENDS_JOB,
    AIRPORT_WEEK_JOB,
)
