import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;
import org.apache.kafka.clients.ClientDnsLookup;
import org.apache.kafka.clients.ClientUtils;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/**
 * Prints what Kafka's Java clients know, one line each, fields separated by tabs. First every error
 * of the protocol: "error", code, name, whether its exception is retriable. Then for each line of
 * the input, a value of bootstrap.servers: "servers" and the addresses, or "refused" and the
 * message.
 */
public class ClientOracle {
  public static void main(String[] arguments) {
    for (Errors error : Errors.values())
      System.out.printf(
          "error\t%d\t%s\t%b%n",
          error.code(), error.name(), error.exception() instanceof RetriableException);
    Scanner input = new Scanner(System.in, StandardCharsets.UTF_8);
    while (input.hasNextLine()) System.out.println(addresses(input.nextLine()));
  }

  @SuppressWarnings("unchecked")
  private static String addresses(String text) {
    try {
      List<String> urls =
          (List<String>) ConfigDef.parseType("bootstrap.servers", text, ConfigDef.Type.LIST);
      List<String> found = new ArrayList<>();
      for (InetSocketAddress one :
          ClientUtils.parseAndValidateAddresses(urls, ClientDnsLookup.USE_ALL_DNS_IPS))
        found.add(one.getHostString() + " " + one.getPort());
      return "servers\t" + String.join("\t", found);
    } catch (RuntimeException error) {
      return "refused\t" + error.getClass().getSimpleName() + "\t" + error.getMessage();
    }
  }
}
