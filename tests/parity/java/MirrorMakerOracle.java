import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.connect.mirror.MirrorCheckpointConnector;
import org.apache.kafka.connect.mirror.MirrorHeartbeatConnector;
import org.apache.kafka.connect.mirror.MirrorMakerConfig;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;
import org.apache.kafka.connect.mirror.SourceAndTarget;

/**
 * Reads files of connect-mirror-maker.sh (standard input: JSON, name -> settings) and says what
 * Java makes of each.
 */
public class MirrorMakerOracle {
  private static final List<Class<?>> CONNECTORS =
      List.of(
          MirrorSourceConnector.class,
          MirrorHeartbeatConnector.class,
          MirrorCheckpointConnector.class);

  public static void main(String[] arguments) throws Exception {
    ObjectMapper json = new ObjectMapper();
    Map<String, Map<String, String>> cases = json.readValue(System.in, Map.class);
    Map<String, Object> answers = new TreeMap<>();
    for (Map.Entry<String, Map<String, String>> one : cases.entrySet()) {
      answers.put(one.getKey(), answer(new MirrorMakerConfig(one.getValue())));
    }
    System.out.println(json.writeValueAsString(answers));
  }

  private static Map<String, Object> answer(MirrorMakerConfig config) {
    Map<String, Object> flows = new TreeMap<>();
    for (SourceAndTarget flow : config.clusterPairs()) {
      Map<String, Object> connectors = new TreeMap<>();
      for (Class<?> connector : CONNECTORS) {
        connectors.put(
            connector.getSimpleName(), new TreeMap<>(config.connectorBaseConfig(flow, connector)));
      }
      Map<String, Object> made = new TreeMap<>();
      made.put("worker", new TreeMap<>(config.workerConfig(flow)));
      made.put("connectors", connectors);
      flows.put(flow.toString(), made);
    }
    return flows;
  }
}
