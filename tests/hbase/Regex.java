// Java's answers about regular expressions, for esker-table's tests: java Regex.java
//
// A line has 1 or 0 (whether case does not count), a pattern and texts, all as hexadecimal bytes in UTF-8 and separated by blanks.
// The answer is an E, if there is no such pattern, or a 1 or 0 for each text: whether it has a match.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

class Regex {
  static String text(String hexadecimal) {
    return new String(HexFormat.of().parseHex(hexadecimal.substring(1)), StandardCharsets.UTF_8);
  }

  public static void main(String[] arguments) throws Exception {
    var lines = new BufferedReader(new InputStreamReader(System.in));
    var answers = new StringBuilder();
    for (String line; (line = lines.readLine()) != null; ) {
      String[] parts = line.split(" ");
      int flags = Pattern.DOTALL | (parts[0].equals("1") ? Pattern.CASE_INSENSITIVE : 0);
      try {
        Pattern pattern = Pattern.compile(text(parts[1]), flags);
        for (int at = 2; at < parts.length; at++) {
          answers.append(pattern.matcher(text(parts[at])).find() ? '1' : '0');
        }
      } catch (PatternSyntaxException | IndexOutOfBoundsException wrong) {
        answers.append('E');
      }
      answers.append('\n');
    }
    System.out.print(answers);
  }
}
