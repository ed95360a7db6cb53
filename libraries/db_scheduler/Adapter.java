import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.SchedulerBuilder;
import com.github.kagkarlsson.scheduler.SchedulerName;
import com.github.kagkarlsson.scheduler.task.CompletionHandler;
import com.github.kagkarlsson.scheduler.task.FailureHandler;
import com.github.kagkarlsson.scheduler.task.TaskDescriptor;
import com.github.kagkarlsson.scheduler.task.TaskInstance;
import com.github.kagkarlsson.scheduler.task.helper.OneTimeTask;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import com.zaxxer.hikari.HikariDataSource;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.Statement;
import java.time.Duration;
import java.time.Instant;
import stallbench.Batches;
import stallbench.Messages;
import stallbench.Messages.Document;
import stallbench.Messages.Job;
import stallbench.Recorder;

/** db-scheduler, as its documentation recommends: one-time tasks are scheduled in batches; a scheduler with a pool of connections polls. */
public final class Adapter {
  private static final TaskDescriptor<Job> JOB = TaskDescriptor.of("job", Job.class);

  private final Document document;
  private final boolean isPostgres;

  private Adapter(Document document) {
    this.document = document;
    isPostgres = document.part("endpoint").text("engine").equals("postgres");
  }

  public static void main(String[] arguments) throws Exception {
    Adapter adapter = new Adapter(Messages.readDocument());
    switch (arguments[0]) {
      case "install" -> adapter.install();
      case "produce" -> adapter.produce();
      case "work" -> adapter.work();
      default -> throw new IllegalArgumentException(arguments[0]);
    }
  }

  private HikariDataSource connect() {
    Document endpoint = document.part("endpoint");
    HikariDataSource source = new HikariDataSource();
    source.setJdbcUrl(document.url(isPostgres ? "postgresql" : "mariadb"));
    source.setUsername(endpoint.text("user"));
    source.setPassword(endpoint.text("password"));
    if (isPostgres && !endpoint.is("prepared_statements")) {
      source.addDataSourceProperty("prepareThreshold", "0");
    }
    if (isPostgres) {
      source.addDataSourceProperty("ApplicationName", "stallbench:" + document.text("name"));
    } else { // MariaDB's driver, for MySQL as well, whose servers ask for the password encrypted with their key
      source.addDataSourceProperty("allowPublicKeyRetrieval", "true");
    }
    return source;
  }

  /** Creates the table by the statements of db-scheduler's documentation. */
  private void install() throws Exception {
    try (HikariDataSource source = connect();
        Connection connection = source.getConnection();
        Statement statement = connection.createStatement();
        InputStream sql = Adapter.class.getResourceAsStream(isPostgres ? "/postgres.sql" : "/mariadb.sql")) {
      for (String each : new String(sql.readAllBytes(), StandardCharsets.UTF_8).split(";\n")) {
        statement.execute(each);
      }
    }
  }

  /** Schedules each batch in one transaction. */
  private void produce() throws Exception {
    try (HikariDataSource source = connect()) {
      source.setAutoCommit(false);
      OneTimeTask<Job> task = Tasks.oneTime(JOB).execute((instance, context) -> {});
      Scheduler scheduler = builder(source, task).commitWhenAutocommitDisabled(true).build();
      Batches.serve(jobs -> scheduler.scheduleBatch(jobs.stream().map(Adapter::instanceOf), Instant.now()));
    }
  }

  private static TaskInstance<?> instanceOf(Job job) {
    return JOB.instance(String.valueOf(job.n())).data(job).build();
  }

  /** Runs a scheduler until SIGTERM, at which its shutdown hook stops it. */
  private void work() throws Exception {
    Recorder recorder = new Recorder(document);
    Document options = document.part("queue_options");
    OneTimeTask<Job> task =
        Tasks.oneTime(JOB)
            .onFailure(recordFailures(recorder))
            .execute((instance, context) -> recorder.work(instance.getData(), ""));
    SchedulerBuilder builder =
        builder(connect(), task)
            .schedulerName(new SchedulerName.Fixed(document.text("name")))
            .threads((int) options.number("threads", 0))
            .pollingInterval(seconds(options.number("polling_interval", 0)))
            .heartbeatInterval(seconds(options.number("dead_after", 0) / SchedulerBuilder.DEFAULT_MISSED_HEARTBEATS_LIMIT))
            .addExecutionInterceptor((instance, context, chain) -> recordCompletion(instance, chain.proceed(instance, context), recorder))
            .registerShutdownHook();
    if (options.number("periodic", 0) > 0) {
      builder.startTasks(Periodic.everyMinute(recorder));
    }
    if (options.is("lock_and_fetch")) {
      builder.pollUsingLockAndFetch(0.5, 1.0);
    }
    Scheduler scheduler = builder.build();
    recorder.ready();
    scheduler.start();
  }

  private SchedulerBuilder builder(HikariDataSource source, OneTimeTask<Job> task) {
    SchedulerBuilder builder = Scheduler.create(source, task);
    return isPostgres ? builder : builder.alwaysPersistTimestampInUTC();
  }

  /**
   * Records a completion when the DELETE of the execution has been committed. The listener's onExecutionComplete does not confirm that: it
   * is called as well if the DELETE fails.
   */
  @SuppressWarnings("unchecked")
  private static CompletionHandler<?> recordCompletion(TaskInstance<?> instance, CompletionHandler<?> deleting, Recorder recorder) {
    if (instance.getTaskName().equals(Periodic.NAME)) {
      return deleting; // which does not delete it, but gives it its next time
    }
    long number = Long.parseLong(instance.getId());
    return (CompletionHandler<Job>)
        (complete, operations) -> {
          ((CompletionHandler<Job>) deleting).complete(complete, operations);
          recorder.write("completed", number, "", "");
        };
  }

  /** Retries a failed job as db-scheduler does by default, and records the failure when that is committed. */
  private static FailureHandler<Job> recordFailures(Recorder recorder) {
    FailureHandler<Job> retrying = new FailureHandler.OnFailureRetryLater<>(Tasks.DEFAULT_RETRY_INTERVAL);
    return (complete, operations) -> {
      retrying.onFailure(complete, operations);
      long number = Long.parseLong(complete.getExecution().taskInstance.getId());
      recorder.write("failed", number, "", complete.getCause().map(Throwable::getMessage).orElse(""));
    };
  }

  private static Duration seconds(double count) {
    return Duration.ofMillis(Math.round(1000 * count));
  }
}
