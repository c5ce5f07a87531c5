"""Stores for the tests: a file of SQLite, and a PostgreSQL cluster of the tests' own."""

import os
import shutil
import subprocess
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path

import pytest
from service.served import Served

from treebandit.service.store import Store


def _binaries():
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "pg_ctl").exists()), None)


class Cluster:
    """A PostgreSQL server in a scratch folder, on a socket there; as the user postgres where we are root."""

    def __init__(self, port=None, network=None):
        self.bin = _binaries()
        self.folder = Path(tempfile.mkdtemp(prefix="tb-pg-"))
        # Below the ports that systems give to clients, so that none of those takes it while the server restarts.
        ports = [port] if port else [20000 + (os.getpid() + 97 * turn) % 10000 for turn in range(5)]
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        self.folder.chmod(0o755)
        self._run(
            "initdb",
            "-D",
            str(self.folder / "data"),
            "-U",
            "postgres",
            "-A",
            "trust",
            "--no-sync",
            "-E",
            "UTF8",
        )
        self.addresses = "127.0.0.1" if network is None else "*"
        if network is not None:
            with (self.folder / "data" / "pg_hba.conf").open("a") as file:
                file.write(f"host all all {network} trust\n")
        for self.port in ports:
            with suppress(subprocess.CalledProcessError):
                self.start()
                return
        raise RuntimeError(f"PostgreSQL starts on none of the ports {ports}; {self.folder} has its log")

    def _run(self, program, *arguments):
        command = [str(self.bin / program), *arguments]
        if os.getuid() == 0:
            command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", timeout=60
        )

    def start(self):
        options = f"-k {self.folder} -p {self.port} -c listen_addresses='{self.addresses}'"
        log = str(self.folder / "log")
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-l", log, "-w", "-o", options, "start")

    def stop(self, how="immediate"):
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-m", how, "-w", "stop")

    def remove(self):
        with suppress(subprocess.CalledProcessError):
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, name):
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def new(self):
        import psycopg

        name = f"t{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)


@pytest.fixture(scope="session")
def cluster():
    if _binaries() is None:
        pytest.skip("no PostgreSQL binaries (initdb, pg_ctl) on this machine")
    made = Cluster()
    yield made
    made.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    return request.getfixturevalue("cluster").new()


@pytest.fixture
def store(url):
    made = Store.open(url)
    yield made
    made.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service with an empty store, for all tests of a module."""
    with Served(f"sqlite:///{tmp_path_factory.mktemp('served')}/store.db") as made:
        yield made


@pytest.fixture
def sqlite(tmp_path):
    made = Store.open(f"sqlite:///{tmp_path}/s.db")
    yield made
    made.close()
