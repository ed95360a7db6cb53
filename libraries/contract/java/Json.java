package stallbench;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads and writes JSON, for which Java's own library has nothing: objects are maps, whole numbers are long. */
final class Json {
  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  /** Returns the value that a valid text describes. */
  static Object parse(String text) {
    return new Json(text).value();
  }

  private Object value() {
    return switch (peek()) {
      case '{' -> object();
      case '[' -> array();
      case '"' -> string();
      default -> numberOrWord();
    };
  }

  private Map<String, Object> object() {
    Map<String, Object> found = new LinkedHashMap<>();
    for (at++; peek() != '}'; skip(',')) {
      String key = string();
      skip(':');
      found.put(key, value());
    }
    at++;
    return found;
  }

  private List<Object> array() {
    List<Object> found = new ArrayList<>();
    for (at++; peek() != ']'; skip(',')) {
      found.add(value());
    }
    at++;
    return found;
  }

  private String string() {
    StringBuilder found = new StringBuilder();
    peek();
    for (at++; text.charAt(at) != '"'; at++) {
      char character = text.charAt(at);
      found.append(character == '\\' ? escaped(text.charAt(++at)) : character);
    }
    at++;
    return found.toString();
  }

  private char escaped(char kind) {
    if (kind == 'u') {
      at += 4;
      return (char) Integer.parseInt(text.substring(at - 3, at + 1), 16);
    }
    int index = "bfnrt".indexOf(kind);
    return index < 0 ? kind : "\b\f\n\r\t".charAt(index);
  }

  private Object numberOrWord() {
    int from = at;
    while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) {
      at++;
    }
    String found = text.substring(from, at);
    return switch (found) {
      case "null" -> null;
      case "true", "false" -> Boolean.valueOf(found);
      default -> found.matches("-?\\d+") ? (Object) Long.valueOf(found) : (Object) Double.valueOf(found);
    };
  }

  private char peek() {
    while (Character.isWhitespace(text.charAt(at))) {
      at++;
    }
    return text.charAt(at);
  }

  private void skip(char separator) {
    if (peek() == separator) {
      at++;
    }
  }

  /** Returns the text of a message: an object whose values are texts, true, or an empty object. */
  static String format(Map<String, ?> message) {
    List<String> parts = new ArrayList<>();
    message.forEach((key, value) -> parts.add(quote(key) + ": " + (value instanceof String text ? quote(text) : value)));
    return "{" + String.join(", ", parts) + "}";
  }

  private static String quote(String text) {
    StringBuilder quoted = new StringBuilder("\"");
    for (char character : text.toCharArray()) {
      boolean isPlain = character >= ' ' && character < 127 && character != '"' && character != '\\';
      quoted.append(isPlain ? String.valueOf(character) : String.format("\\u%04x", (int) character));
    }
    return quoted.append('"').toString();
  }
}
