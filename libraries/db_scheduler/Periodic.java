import com.github.kagkarlsson.scheduler.task.Execution;
import com.github.kagkarlsson.scheduler.task.helper.RecurringTask;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import com.github.kagkarlsson.scheduler.task.schedule.Schedules;
import stallbench.Recorder;

/** The job of db-scheduler's own schedule: one execution for all schedulers, which each moves to the next minute when it has executed it. */
final class Periodic {
  static final String NAME = "periodic";
  private static final String EVERY_MINUTE = "0 * * * * *";
  private static final int PERIOD_S = 60;

  private Periodic() {}

  static RecurringTask<Void> everyMinute(Recorder recorder) {
    return Tasks.recurring(NAME, Schedules.cron(EVERY_MINUTE))
        .execute(
            (instance, context) -> {
              Execution execution = context.getExecution();
              recorder.write("fired", execution.executionTime.getEpochSecond() / PERIOD_S, "", String.valueOf(execution.version));
            });
  }
}
