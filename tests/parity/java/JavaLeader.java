// Java Connect's own WorkerCoordinator as a program: it leads a group that exists only on its
// standard input.
//
// No lambdas, and casts instead of inferred types, so that Janino (which comes with Spark) runs
// this source on a
// Java without a compiler. One command a line, words parted by blanks, bytes in base64:
//   new WORKER DELAY_MS                     a worker with an empty memory
//   store WORKER OFFSET NAME=TASKS ...      what its config store holds from now on; NAME=! is an
// inconsistent connector
//   join WORKER                             its own JoinGroup: it remembers what the store holds
//   lead WORKER PROTOCOL GENERATION NOW_MS MEMBER=METADATA ...
//                                           -> a line "MEMBER ASSIGNMENT" for each, then "done
// NANOSECONDS"
//   synced WORKER PROTOCOL GENERATION ASSIGNMENT   it adopts its own assignment
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Supplier;
import org.apache.kafka.clients.GroupRebalanceConfig;
import org.apache.kafka.clients.consumer.internals.AbstractCoordinator;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocolCompatibility;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator;
import org.apache.kafka.connect.runtime.distributed.WorkerRebalanceListener;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.storage.ConfigBackingStore;

public class JavaLeader {
  private static final PrintStream OUT = System.out;

  public static void main(String[] arguments) throws Exception {
    System.setOut(System.err);
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in), 1 << 20);
    Map workers = new HashMap();
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split(" ");
      Leader worker = (Leader) workers.get(words[1]);
      if (words[0].equals("new")) {
        workers.put(words[1], Leader.create(Integer.parseInt(words[2])));
      } else if (words[0].equals("store")) {
        worker.store.holds = snapshot(words);
      } else if (words[0].equals("join")) {
        worker.metadata();
      } else if (words[0].equals("synced")) {
        worker.synced(words);
      } else {
        worker.lead(words);
      }
    }
  }

  private static ClusterConfigState snapshot(String[] words) {
    Map counts = new HashMap();
    Map configs = new HashMap();
    Set inconsistent = new HashSet();
    for (int n = 3; n < words.length; n++) {
      String[] pair = words[n].split("=");
      configs.put(pair[0], Collections.emptyMap());
      if (pair[1].equals("!")) {
        inconsistent.add(pair[0]);
        counts.put(pair[0], Integer.valueOf(3));
      } else {
        counts.put(pair[0], Integer.valueOf(pair[1]));
      }
    }
    Map none = Collections.emptyMap();
    return new ClusterConfigState(
        Long.parseLong(words[2]),
        null,
        counts,
        configs,
        none,
        none,
        none,
        none,
        none,
        Collections.emptySet(),
        inconsistent);
  }

  public static class SetTime implements Time {
    public long now;

    public long milliseconds() {
      return now;
    }

    public long nanoseconds() {
      return now * 1000000L;
    }

    public void sleep(long ms) {
      now += ms;
    }

    public void waitObject(Object object, Supplier condition, long deadline) {
      throw new UnsupportedOperationException();
    }
  }

  public static class Store implements InvocationHandler {
    public ClusterConfigState holds = ClusterConfigState.EMPTY;

    public Object invoke(Object proxy, Method method, Object[] arguments) {
      return method.getName().equals("snapshot") ? holds : null;
    }
  }

  public static class Leader extends WorkerCoordinator {
    private final SetTime clock;
    final Store store;

    static Leader create(int delayMs) {
      Store store = new Store();
      ClassLoader loader = JavaLeader.class.getClassLoader();
      Object config = Proxy.newProxyInstance(loader, new Class[] {ConfigBackingStore.class}, store);
      Object listener =
          Proxy.newProxyInstance(loader, new Class[] {WorkerRebalanceListener.class}, new Store());
      return new Leader(
          new SetTime(),
          store,
          (ConfigBackingStore) config,
          (WorkerRebalanceListener) listener,
          delayMs);
    }

    private Leader(
        SetTime clock,
        Store store,
        ConfigBackingStore config,
        WorkerRebalanceListener listener,
        int delayMs) {
      super(
          new GroupRebalanceConfig(
              10000, 60000, 3000, "group", Optional.empty(), null, 100L, 1000L, true),
          new LogContext(),
          null,
          new Metrics(),
          "connect",
          clock,
          "http://unused/",
          config,
          listener,
          ConnectProtocolCompatibility.SESSIONED,
          delayMs);
      this.clock = clock;
      this.store = store;
    }

    void synced(String[] words) {
      ByteBuffer assignment = ByteBuffer.wrap(Base64.getDecoder().decode(words[4]));
      onJoinComplete(Integer.parseInt(words[3]), words[1], words[2], assignment);
    }

    void lead(String[] words) throws Exception {
      String leaderId = words[1];
      String protocol = words[2];
      Field generation = AbstractCoordinator.class.getDeclaredField("generation");
      generation.setAccessible(true);
      generation.set(
          this, new AbstractCoordinator.Generation(Integer.parseInt(words[3]), leaderId, protocol));
      clock.now = Long.parseLong(words[4]);
      List members = new ArrayList();
      for (int n = 5; n < words.length; n++) {
        int parting = words[n].indexOf('=');
        byte[] metadata = Base64.getDecoder().decode(words[n].substring(parting + 1));
        members.add(
            new JoinGroupResponseData.JoinGroupResponseMember()
                .setMemberId(words[n].substring(0, parting))
                .setMetadata(metadata));
      }
      long begun = System.nanoTime();
      Map told = new TreeMap(onLeaderElected(leaderId, protocol, members, false));
      long took = System.nanoTime() - begun;
      for (Iterator each = told.entrySet().iterator(); each.hasNext(); ) {
        Map.Entry entry = (Map.Entry) each.next();
        ByteBuffer buffer = (ByteBuffer) entry.getValue();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        OUT.println(entry.getKey() + " " + Base64.getEncoder().encodeToString(bytes));
      }
      OUT.println("done " + took);
      OUT.flush();
    }
  }
}
