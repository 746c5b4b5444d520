"""Servers that several modules use: one of each for the whole session, started for the first test that asks."""

from tests.support.databases import mariadb, postgresql
from tests.support.kafka import kafka

__all__ = ["kafka", "mariadb", "postgresql"]
