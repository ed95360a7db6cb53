package stallbench;

import java.io.IOException;
import stallbench.Faults.Fault;
import stallbench.Messages.Document;
import stallbench.Messages.JobFailed;

/** Kills or stops this process at the crash points that a worker passes, if an active job fault says so. */
final class Crashes {
  private final String worker;
  private final Faults faults;
  private final Draws draws;

  Crashes(String worker, Faults faults, Draws draws) {
    this.draws = draws;
    this.worker = worker;
    this.faults = faults;
  }

  /** Is at a crash point with a job: the process may be killed, or stopped until the bench resumes it, before this returns. */
  void pass(String point, long number) {
    try {
      for (Fault fault : faults.active()) {
        if (point.equals(fault.content().text("at")) && isDue(fault)) {
          faults.crash(fault.name(), fault.content().text("crash"), number);
        }
      }
    } catch (IOException | InterruptedException error) {
      throw new JobFailed(error.toString());
    }
  }

  /** Says whether a crash at this point is active. */
  boolean areAt(String point) {
    try {
      return faults.active().stream().anyMatch(fault -> point.equals(fault.content().text("at")));
    } catch (IOException error) {
      throw new JobFailed(error.toString());
    }
  }

  /** Says whether this passage of a crash point crashes: every n-th, or drawn by share. */
  private boolean isDue(Fault fault) {
    Document content = fault.content();
    int passage = draws.count(fault.name());
    int everyNth = (int) content.number("every_nth", 0);
    if (everyNth > 0) {
      return passage % everyNth == 0;
    }
    return Draws.draw("%.0f %s".formatted(content.number("seed", 0), worker), passage, content.number("share", 1));
  }

  static String announcement(String what) {
    return what.equals("kill") ? ".killed" : ".stopped";
  }

  /**
   * Sends this process SIGKILL or SIGSTOP, by a shell: Java cannot send itself a signal. The shell ends when the process is stopped, so
   * that this thread, which waits for it, does not go on before that.
   */
  static void signal(String what) throws IOException, InterruptedException {
    long pid = ProcessHandle.current().pid();
    String stop = "kill -STOP %1$d; until grep -q '^State:.T' /proc/%1$d/status; do sleep 0.01; done".formatted(pid);
    String command = what.equals("kill") ? "kill -KILL " + pid : stop;
    new ProcessBuilder("/bin/sh", "-c", command).start().waitFor();
  }
}
