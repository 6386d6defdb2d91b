"""The cases of the table contract, by subject; ``testing.table_contract`` puts them together."""
