"""The numpy interpreter of all three levels: the meaning that passes and backends are checked against."""
