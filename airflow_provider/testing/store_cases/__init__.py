"""The cases of the store contract, by subject; ``testing.store_contract`` puts them together."""
