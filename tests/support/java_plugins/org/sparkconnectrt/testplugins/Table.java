package org.sparkconnectrt.testplugins;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.config.ConfigData;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.provider.ConfigProvider;

/**
 * Values of its own parameters: {@code config.providers.t.param.secrets.password=x} is
 * ${t:secrets:password}.
 */
public final class Table implements ConfigProvider {
  private Map<String, ?> parameters = Map.of();

  @Override
  public void configure(Map<String, ?> configs) {
    parameters = configs;
  }

  @Override
  public ConfigData get(String path) {
    if (path.equals("refused")) {
      throw new ConfigException("the path is refused");
    }
    Map<String, String> found = new HashMap<>();
    parameters.forEach(
        (name, value) -> {
          if (name.startsWith(path + ".")) {
            found.put(name.substring(path.length() + 1), String.valueOf(value));
          }
        });
    Object ttl = parameters.get("ttl.ms");
    return ttl == null
        ? new ConfigData(found)
        : new ConfigData(found, Long.valueOf(ttl.toString()));
  }

  @Override
  public ConfigData get(String path, Set<String> keys) {
    ConfigData all = get(path);
    Map<String, String> found = new HashMap<>(all.data());
    found.keySet().retainAll(keys);
    return new ConfigData(found, all.ttl());
  }

  @Override
  public void close() {}
}
