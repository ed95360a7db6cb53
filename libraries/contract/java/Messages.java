package stallbench;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * stallbench's contract with an adapter in Java: reads the document. {@link Batches} answers batches, {@link Recorder}
 * records jobs and carries out job faults. Java's own library only. docs/add-a-library.md describes the contract.
 */
public final class Messages {
  private static final BufferedReader INPUT = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

  private Messages() {}

  /** The arguments of a job, which the bench makes. */
  public record Job(long n, long sum, String payload) implements Serializable {}

  /** The job fails, as after an error in the application's code. */
  public static final class JobFailed extends RuntimeException {
    JobFailed(String message) {
      super(message);
    }
  }

  /** The document, which is the first line of standard input, or another object of JSON. */
  public record Document(Map<String, Object> content) {
    @SuppressWarnings("unchecked")
    static Document parse(String text) {
      return new Document((Map<String, Object>) Json.parse(text));
    }

    public String text(String key) {
      return (String) content.get(key);
    }

    public double number(String key, double otherwise) {
      return content.get(key) instanceof Number number ? number.doubleValue() : otherwise;
    }

    boolean has(String key) {
      return content.get(key) != null;
    }

    public boolean is(String key) {
      return Boolean.TRUE.equals(content.get(key));
    }

    /** Returns a part that is itself an object: endpoint, queue_options. */
    @SuppressWarnings("unchecked")
    public Document part(String key) {
      return new Document((Map<String, Object>) content.get(key));
    }

    /** Returns the address of the database as a URL of JDBC. */
    public String url(String protocol) {
      Document endpoint = part("endpoint");
      String address = "%s:%.0f/%s".formatted(endpoint.text("host"), endpoint.number("port", 0), endpoint.text("database"));
      return "jdbc:%s://%s".formatted(protocol, address);
    }
  }

  public static Document readDocument() throws IOException {
    return Document.parse(readLine());
  }

  /** Returns the next line of standard input; null at its end. */
  static String readLine() throws IOException {
    return INPUT.readLine();
  }

  /** Sends the bench a message: one JSON object on one line of standard output. */
  public static synchronized void send(Map<String, ?> message) {
    System.out.println(Json.format(message));
    System.out.flush();
  }
}
