package stallbench;

import java.io.IOException;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import stallbench.Messages.Job;

/** The verb produce: hands each batch of the bench to the adapter, and answers it. */
public final class Batches {
  private Batches() {}

  /** The queue takes none of the batch's jobs, for example because it is full. */
  public static final class JobsRefused extends RuntimeException {
    public JobsRefused(String reason) {
      super(reason);
    }
  }

  /** Enqueues a batch; an exception becomes an answer. */
  public interface Enqueue {
    void enqueue(List<Job> jobs) throws Exception;
  }

  /** Enqueues the jobs of each batch that the bench sends, and answers ok, refused, or the error's code and message. */
  public static void serve(Enqueue adapter) throws IOException {
    Messages.send(Map.of("ready", Map.of()));
    for (String line = Messages.readLine(); line != null; line = Messages.readLine()) {
      try {
        adapter.enqueue(readJobs(line));
        Messages.send(Map.of("ok", true));
      } catch (JobsRefused refusal) {
        Messages.send(Map.of("refused", refusal.getMessage()));
      } catch (Exception error) {
        Messages.send(Map.of("error", code(error), "message", String.valueOf(error.getMessage()).replaceAll("\\s+", " ")));
      }
    }
  }

  private static List<Job> readJobs(String line) {
    List<Job> jobs = new ArrayList<>();
    for (Object each : (List<?>) ((Map<?, ?>) Json.parse(line)).get("jobs")) {
      Map<?, ?> job = (Map<?, ?>) each;
      jobs.add(new Job((Long) job.get("n"), (Long) job.get("sum"), (String) job.get("payload")));
    }
    return jobs;
  }

  /** Returns the server's code: the number of MariaDB and MySQL if there is one, or the SQLSTATE; else the class of the driver's error, or of the error. */
  private static String code(Throwable error) {
    List<Throwable> all = new ArrayList<>();
    collect(error, all);
    for (Throwable each : all) {
      if (each instanceof SQLException ofServer && ofServer.getErrorCode() > 0) {
        return String.valueOf(ofServer.getErrorCode());
      }
      if (each instanceof SQLException ofServer && ofServer.getSQLState() != null) {
        return ofServer.getSQLState();
      }
    }
    Throwable named = all.stream().filter(each -> each instanceof SQLException).findFirst().orElse(error);
    return named.getClass().getSimpleName();
  }

  /** Adds an error and its causes, then what it suppresses: a rollback may fail after the error that was the reason for it. */
  private static void collect(Throwable error, List<Throwable> all) {
    if (error == null || all.contains(error)) return;
    all.add(error);
    collect(error.getCause(), all);
    for (Throwable suppressed : error.getSuppressed()) collect(suppressed, all);
  }
}
