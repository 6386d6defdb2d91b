"""Open stores on ZooKeeper."""

from __future__ import annotations

from airflow_provider.stores.opening import Now, StoreOpener, UnopenedStore
from airflow_provider.stores.zookeeper.connecting import ZookeeperConnection


class ZookeeperOpener(StoreOpener):
    """Opener of stores under a node of a ZooKeeper ensemble."""

    scheme = "zookeeper"
    form = "zookeeper://[USER:PASSWORD@]HOST:PORT[,HOST:PORT...]/CHROOT"
    name = "ZooKeeper"
    connection = ZookeeperConnection()

    def unopened(self, url: str, now: Now | None) -> UnopenedStore:  # noqa: ARG002 - it has a clock
        from airflow_provider.stores.zookeeper.address import parsed
        from airflow_provider.stores.zookeeper.store import ZookeeperStore

        return ZookeeperStore(parsed(url))
