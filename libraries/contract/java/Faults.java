package stallbench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import stallbench.Messages.Document;
import stallbench.Messages.JobFailed;

/** Carries out job faults, as stallbench.injection.job_faults describes them. */
final class Faults {
  private static final String SUFFIX = ".json";

  private final String worker;
  private final double workS;
  private final Path folder;
  private final String seed;
  private final Draws draws;
  private final Clock clock;
  private final Set<String> sent = ConcurrentHashMap.newKeySet();

  record Fault(String name, Document content) {}

  Faults(Document document, Draws draws, Clock clock) {
    this.draws = draws;
    this.clock = clock;
    worker = document.text("name");
    workS = document.number("work_s", 0);
    folder = document.text("job_faults") == null ? null : Path.of(document.text("job_faults"));
    seed = "%.0f".formatted(document.number("seed", 1));
  }

  /** Carries out those that affect a job; returns the seconds that its work takes. */
  double meet(long number, String payload) {
    try {
      List<Fault> met = active().stream().filter(fault -> affects(fault, payload)).toList();
      for (Fault fault : met) {
        if (sent.add(fault.name)) {
          Messages.send(Map.of("met", fault.name));
        }
      }
      for (Fault fault : met) {
        if (fault.content.is("kills")) {
          crash(fault.name, "kill", number);
        }
      }
      List<String> failing = met.stream().filter(fault -> fault.content.is("fails")).map(Fault::name).toList();
      if (!failing.isEmpty()) {
        throw new JobFailed("a dependency of the job is unavailable (" + String.join(", ", failing) + ")");
      }
      return met.stream().mapToDouble(fault -> fault.content.number("takes_s", -1)).filter(s -> s >= 0).max().orElse(workS);
    } catch (IOException | InterruptedException error) {
      throw new JobFailed(error.toString());
    }
  }

  /** Returns the job faults that are active for this worker. */
  List<Fault> active() throws IOException {
    List<Fault> found = new ArrayList<>();
    if (folder == null || !Files.isDirectory(folder)) {
      return found;
    }
    try (Stream<Path> paths = Files.list(folder)) {
      for (Path path : paths.filter(each -> each.toString().endsWith(SUFFIX)).sorted().toList()) {
        String file = path.getFileName().toString();
        Document fault = Document.parse(Files.readString(path));
        if (fault.text("on").equals("workers") || (worker + "-").startsWith(fault.text("on") + "-")) {
          found.add(new Fault(file.substring(0, file.length() - SUFFIX.length()), fault));
        }
      }
    } catch (NoSuchFileException error) {
      return active(); // one ended just now
    }
    return found;
  }

  private boolean affects(Fault each, String payload) {
    Document fault = each.content;
    if (fault.number("clock_offset_s", 0) != 0) {
      return clock.isOff();
    }
    if (!fault.is("kills") && !fault.is("fails") && fault.number("takes_s", -1) < 0) {
      return false;
    }
    String mark = fault.text("mark");
    if (mark != null && !mark.equals(Document.parse(payload).text("mark"))) {
      return false;
    }
    double share = fault.number("share", 1);
    return share >= 1 || Draws.draw(seed + " " + each.name, draws.count(each.name), share);
  }

  /** Kills or stops this process at once, if the fault has not ended meanwhile. */
  void crash(String name, String what, long number) throws IOException, InterruptedException {
    Path announcement = folder.resolve(name + "." + worker + Crashes.announcement(what));
    Files.writeString(announcement, String.valueOf(number));
    if (Files.exists(folder.resolve(name + SUFFIX))) {
      Crashes.signal(what);
    } else {
      Files.deleteIfExists(announcement);
    }
  }
}
