package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.errors.ConnectException;

/**
 * The consumer that a sink task may find in its context, as some do by reflection. It stands for
 * the task's member of its group, which lives in the driver: group, generation and member id are
 * that member's, committed offsets are the group's, a seek moves the task's reader. It reads
 * nothing.
 */
final class GroupMember implements InvocationHandler {
  private static final long STABLE_LIMIT_NS =
      60_000_000_000L; // a consumer's default.api.timeout.ms
  private static final long STABLE_LOOK_MS = 50;

  private final SinkContext context;
  private final Map<String, String> properties;
  private volatile ConsumerGroupMetadata metadata;
  private Admin admin;

  /** Takes the properties of the task's consumer, resolved. */
  GroupMember(SinkContext context, Map<String, String> properties) {
    this.context = context;
    this.properties = properties;
  }

  @SuppressWarnings("unchecked")
  static Consumer<byte[], byte[]> proxy(InvocationHandler handler) {
    return (Consumer<byte[], byte[]>)
        Proxy.newProxyInstance(
            Consumer.class.getClassLoader(), new Class<?>[] {Consumer.class}, handler);
  }

  /** The member has joined a new generation. */
  void joined(JsonNode head) {
    metadata =
        new ConsumerGroupMetadata(
            head.get("group").asText(),
            head.get("generation").asInt(),
            head.get("member").asText(),
            Optional.ofNullable(head.path("instance").asText(null)));
  }

  @Override
  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    return switch (method.getName()) {
      case "groupMetadata" -> groupMetadata();
      case "assignment" -> context.assignment();
      case "committed" -> committed(arguments[0]);
      case "seek" -> seek((TopicPartition) arguments[0], arguments[1]);
      case "paused" -> context.pausedPartitions();
      case "toString" -> "the group member of " + properties.get(ConsumerConfig.GROUP_ID_CONFIG);
      case "hashCode" -> System.identityHashCode(this);
      case "equals" -> proxy == arguments[0];
      default ->
          throw new UnsupportedOperationException(
              "the consumer's " + method.getName() + " is not at hand here");
    };
  }

  private ConsumerGroupMetadata groupMetadata() {
    if (metadata == null) {
      throw new ConnectException("the task's group member has no generation yet");
    }
    return metadata;
  }

  private Object seek(TopicPartition partition, Object to) {
    context.offset(partition, to instanceof OffsetAndMetadata at ? at.offset() : (Long) to);
    return null;
  }

  /** Returns the offsets that the group has committed of these; what it has not is left out. */
  @SuppressWarnings("unchecked")
  Map<TopicPartition, Long> reached(Set<TopicPartition> partitions) throws InterruptedException {
    Map<TopicPartition, Long> found = new HashMap<>();
    if (properties.getOrDefault(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, "").isBlank()) {
      return found; // no cluster: a test's
    }
    ((Map<TopicPartition, OffsetAndMetadata>) committed(partitions))
        .forEach(
            (partition, at) -> {
              if (at != null) {
                found.put(partition, at.offset());
              }
            });
    return found;
  }

  /** Returns what the group has committed; like a consumer's, with null where there is nothing. */
  private synchronized Object committed(Object asked) throws InterruptedException {
    Set<TopicPartition> partitions = new HashSet<>();
    if (asked instanceof Collection<?> several) {
      several.forEach(one -> partitions.add((TopicPartition) one));
    } else {
      partitions.add((TopicPartition) asked);
    }
    if (admin == null) {
      Properties known = new Properties();
      properties.forEach(
          (name, value) -> { // others would be warned about
            if (AdminClientConfig.configNames().contains(name)) {
              known.put(name, value);
            }
          });
      limitRequests(known);
      admin = Admin.create(known);
    }
    try {
      return stable(partitions);
    } catch (ExecutionException error) {
      throw new ConnectException("the group's committed offsets cannot be read", error.getCause());
    }
  }

  /** A consumer accepts a total timeout below that of one request; an admin client refuses it. */
  private static void limitRequests(Properties known) {
    Object total = known.get(AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG);
    Object request = known.getOrDefault(AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG, "30000");
    if (total != null
        && Long.parseLong(total.toString().trim()) < Long.parseLong(request.toString().trim())) {
      known.put(AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG, total);
    }
  }

  /**
   * Waits, as a consumer does, for what a transaction has under way: an admin leaves such
   * partitions out.
   */
  private Map<TopicPartition, OffsetAndMetadata> stable(Set<TopicPartition> partitions)
      throws ExecutionException, InterruptedException {
    String group = properties.get(ConsumerConfig.GROUP_ID_CONFIG);
    var asked = Map.of(group, new ListConsumerGroupOffsetsSpec().topicPartitions(partitions));
    var options = new ListConsumerGroupOffsetsOptions().requireStable(true);
    long began = System.nanoTime();
    while (true) {
      Map<TopicPartition, OffsetAndMetadata> all =
          admin.listConsumerGroupOffsets(asked, options).partitionsToOffsetAndMetadata(group).get();
      if (all.keySet().containsAll(partitions)) { // with null where nothing is committed
        return new HashMap<>(all);
      }
      if (System.nanoTime() - began > STABLE_LIMIT_NS) {
        throw new ConnectException(
            "the group's committed offsets are not stable: a transaction is open");
      }
      Thread.sleep(STABLE_LOOK_MS);
    }
  }

  synchronized void close() {
    if (admin != null) {
      admin.close();
      admin = null;
    }
  }
}
