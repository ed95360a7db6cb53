"""Django's tasks with the database backend, as its documentation recommends: the management command `db_worker`."""

import signal
import sys

import django
import pymysql
from django.conf import settings
from stallbench_contract import JobFailedError, Recorder, read_document, serve_batches
from stallbench_migration import answer_for, import_version

ENGINES = {
    "postgres": "django.db.backends.postgresql",
    "mariadb": "django.db.backends.mysql",
    "sqlite": "django.db.backends.sqlite3",
}
IN_DJANGO_TASKS = "0.11.0"
"""The backend of this version, and of the ones before it, is a part of the package django-tasks."""


def configure(document, version):
    """Set up Django as a project's settings would, with this version of the backend."""
    inside = version == IN_DJANGO_TASKS
    application = "django_tasks.backends.database" if inside else "django_tasks_db"
    endpoint = document["endpoint"]
    address = {"HOST": endpoint["host"], "PORT": endpoint["port"], "NAME": endpoint["database"]}
    access = {**address, "USER": endpoint["user"], "PASSWORD": endpoint["password"]}
    of_engine = {
        "postgres": {"application_name": f"stallbench:{document['name']}"},
        "mariadb": {"charset": "utf8mb4"},
        "sqlite": {},
    }
    # Django asks for mysqlclient, of which there are no wheels. PyMySQL has the same interface, and says so in its place.
    pymysql.version_info = (2, 2, 1, "final", 0)
    pymysql.install_as_MySQLdb()
    settings.configure(
        USE_TZ=True,
        INSTALLED_APPS=["django_tasks", application],
        TASKS={"default": {"BACKEND": f"{application}.DatabaseBackend", "QUEUES": ["default"]}},
        DATABASES={"default": {"ENGINE": ENGINES[endpoint["engine"]], "OPTIONS": of_engine[endpoint["engine"]], **access}},
    )
    import_version("django_tasks" if inside else "django_tasks_db", version)
    django.setup()


if __name__ == "__main__":
    verb, document = sys.argv[1], read_document()
    recorder = Recorder(document) if verb == "work" else None
    is_newer = verb == "migrate" or document.get("upgraded")
    configure(document, document["queue_options"]["upgrade_to" if is_newer else "version"])

from django.core.management import call_command  # noqa: E402 - Django must be configured first
from django.db import close_old_connections, connection, transaction  # noqa: E402
from django_tasks import TaskResultStatus, task  # noqa: E402
from django_tasks.signals import task_finished  # noqa: E402


@task
def execute(job):
    """Execute a job; tasks are enqueued with the path of their function, which is this module's in both processes."""
    if recorder is None:
        raise JobFailedError("the producer executes no job")
    recorder.work(job, 1)


def record_end(sender, task_result, **_):
    """Record the end of a task: the signal follows the commit of its new status."""
    succeeded = task_result.status != TaskResultStatus.FAILED
    error = "" if succeeded else task_result.errors[0].traceback.strip().splitlines()[-1]
    recorder.write("completed" if succeeded else "failed", task_result.args[0]["n"], 1, error)


def work():
    """Run the command until SIGTERM."""
    task_finished.connect(record_end)
    connection.ensure_connection()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # until the command has a handler of its own
    recorder.ready()
    call_command("db_worker", "--interval", str(document["queue_options"]["interval"]), "--no-reload")


def produce():
    """Enqueue the tasks of each batch one by one, in one transaction: there is no call for a batch."""

    def enqueue(jobs):
        close_old_connections()  # as Django does before each request: the next statement reconnects if the connection is lost
        with transaction.atomic():
            for job in jobs:
                execute.enqueue(job)

    serve_batches(enqueue)


def prune():
    """Run the command that deletes results which are 14 days old or older."""
    call_command("prune_db_task_results")


def install():
    """Create the tables by Django's migrations."""
    call_command("migrate", verbosity=0)


def migrate():
    """Carry out the newer version's migrations; on PostgreSQL and SQLite, each is a transaction."""
    answer_for(install)


if __name__ == "__main__":
    {"install": install, "migrate": migrate, "produce": produce, "work": work, "prune": prune}[verb]()
