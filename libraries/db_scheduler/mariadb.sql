-- The table as db-scheduler's documentation gives it for MariaDB.
CREATE TABLE scheduled_tasks (
  task_name varchar(100) NOT NULL,
  task_instance varchar(100) NOT NULL,
  task_data blob,
  execution_time datetime(6) NOT NULL,
  picked boolean NOT NULL,
  picked_by varchar(50),
  last_success datetime(6) NULL,
  last_failure datetime(6) NULL,
  consecutive_failures int,
  last_heartbeat datetime(6) NULL,
  version bigint NOT NULL,
  priority smallint,
  PRIMARY KEY (task_name, task_instance),
  INDEX execution_time_idx (execution_time),
  INDEX last_heartbeat_idx (last_heartbeat),
  INDEX priority_execution_time_idx (priority DESC, execution_time ASC)
);
