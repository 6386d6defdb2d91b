#!/bin/sh
# Run once by the postgres image, when its data directory is empty: a database for Airflow, and one for the epochs with
# a role that owns the tables and one for everything that runs. As docs/how-to/postgresql.md has them.
set -eu

psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" <<'SQL'
\getenv airflow_password AIRFLOW_DB_PASSWORD
\getenv admin_password EPOCHS_ADMIN_PASSWORD
\getenv task_password EPOCHS_TASK_PASSWORD
CREATE ROLE airflow LOGIN PASSWORD :'airflow_password';
CREATE ROLE epochs_admin LOGIN PASSWORD :'admin_password';
CREATE ROLE epochs_task LOGIN PASSWORD :'task_password';
CREATE DATABASE airflow OWNER airflow ENCODING 'UTF8' TEMPLATE template0;
CREATE DATABASE epochs OWNER epochs_admin ENCODING 'UTF8' TEMPLATE template0;
REVOKE CONNECT ON DATABASE airflow, epochs FROM PUBLIC;
GRANT CONNECT ON DATABASE epochs TO epochs_task;
\connect epochs
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE, CREATE ON SCHEMA public TO epochs_admin;
GRANT USAGE ON SCHEMA public TO epochs_task;
ALTER DEFAULT PRIVILEGES FOR ROLE epochs_admin IN SCHEMA public
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO epochs_task;
ALTER DEFAULT PRIVILEGES FOR ROLE epochs_admin IN SCHEMA public
    GRANT USAGE ON SEQUENCES TO epochs_task;
SQL
