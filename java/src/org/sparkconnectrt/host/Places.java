package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.net.URL;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Driver;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.ServiceLoader;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.zip.ZipException;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.runtime.isolation.PluginClassLoader;
import org.apache.kafka.connect.runtime.isolation.PluginClassLoaderFactory;
import org.apache.kafka.connect.runtime.isolation.PluginDesc;
import org.apache.kafka.connect.runtime.isolation.PluginScanResult;
import org.apache.kafka.connect.runtime.isolation.PluginSource;
import org.apache.kafka.connect.runtime.isolation.PluginUtils;
import org.apache.kafka.connect.runtime.isolation.ReflectionScanner;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Plug-ins by the place they are at: a folder of jars, or one jar. Each place has a class loader of
 * its own, made when it is first asked for, so that what is installed later needs no new JVM.
 */
final class Places {
  private static final Logger log = LoggerFactory.getLogger(Places.class);
  private static final String CLASS_PATH = "classpath";
  private static final String CLASS_FILE = ".class";
  private final ClassLoader parent;
  private final Map<String, ClassLoader> loaders = new HashMap<>();

  Places(ClassLoader parent) {
    this.parent = parent;
  }

  /**
   * Returns the loader of the plug-in that a question is about: {"place": ..., "content": ...}; the
   * empty place is Connect's own class path. Other content at a place, installed later, is another
   * plug-in.
   */
  synchronized ClassLoader loader(JsonNode asked) throws IOException {
    String place = asked.get("place").asText();
    if (place.isEmpty()) {
      return parent;
    }
    String key = place + " " + asked.path("content").asText();
    ClassLoader known = loaders.get(key);
    if (known == null) {
      known = made(Path.of(place).toAbsolutePath());
      loaders.put(key, known);
    }
    return known;
  }

  private ClassLoader made(Path place) throws IOException {
    List<URL> urls = new ArrayList<>();
    for (Path one : PluginUtils.pluginUrls(place)) {
      urls.add(one.toUri().toURL());
    }
    ClassLoader loader =
        new PluginClassLoader(place.toUri().toURL(), urls.toArray(new URL[0]), parent);
    registerDrivers(loader);
    return loader;
  }

  /** As Connect does: a connector asks the driver manager, which looks at no plug-in by itself. */
  private static void registerDrivers(ClassLoader loader) {
    Iterator<Driver> drivers = ServiceLoader.load(Driver.class, loader).iterator();
    try {
      while (drivers.hasNext()) {
        log.debug("JDBC driver {}", drivers.next());
      }
    } catch (Throwable error) { // a driver that cannot be loaded is missed when it is asked for
      log.debug("a JDBC driver cannot be loaded", error);
    }
  }

  Object newPlugin(JsonNode asked, String className) throws Exception {
    try {
      return Class.forName(className, true, loader(asked)).getDeclaredConstructor().newInstance();
    } catch (java.lang.reflect.InvocationTargetException error) {
      if (error.getCause() instanceof Error cause) {
        throw cause;
      }
      throw error.getCause() instanceof Exception cause ? cause : error;
    }
  }

  static String version(Object plugin) {
    return plugin instanceof Versioned versioned ? versioned.version() : null;
  }

  /**
   * Returns [{"class", "version" or "error"}]: each of "classes" is made once, to be asked. One
   * that does not return within "limit_ms" is left behind, on a thread of its own.
   */
  ArrayNode load(JsonNode asked) throws InterruptedException {
    ArrayNode found = Wire.JSON.createArrayNode();
    for (JsonNode name : asked.get("classes")) {
      found.add(loaded(asked, name.asText()));
    }
    return found;
  }

  /**
   * Returns {"loaded", "not"}: how many classes of a place were loaded, without running anything of
   * them, and how many could not be, as what they need is not there. At most "classes_max" are
   * tried; a jar that is none counts as one.
   */
  ObjectNode classes(JsonNode asked) throws IOException {
    ClassLoader loader = loader(asked);
    long most = asked.get("classes_max").asLong();
    int loaded = 0;
    int not = 0;
    for (Path archive :
        PluginUtils.pluginUrls(Path.of(asked.get("place").asText()).toAbsolutePath())) {
      List<String> names;
      try {
        names = classNames(archive);
      } catch (ZipException broken) {
        not++;
        continue;
      }
      for (String name : names) {
        if (loaded + not >= most) {
          break;
        }
        try {
          Class.forName(name, false, loader)
              .getDeclaredConstructors(); // which links it: an archive takes no other
          loaded++;
        } catch (LinkageError | ClassNotFoundException | SecurityException incomplete) {
          not++;
        }
      }
    }
    return Wire.JSON.createObjectNode().put("loaded", loaded).put("not", not);
  }

  private static List<String> classNames(Path archive) throws IOException {
    if (!Files.isRegularFile(archive)) {
      return List.of(); // a folder of class files
    }
    try (JarFile jar = new JarFile(archive.toFile())) {
      return jar.stream()
          .map(JarEntry::getName)
          .filter(
              name ->
                  name.endsWith(CLASS_FILE)
                      && !name.startsWith("META-INF/")
                      && !name.contains("-info."))
          .map(name -> name.substring(0, name.length() - CLASS_FILE.length()).replace('/', '.'))
          .toList();
    }
  }

  private ObjectNode loaded(JsonNode asked, String name) throws InterruptedException {
    ObjectNode one = Wire.JSON.createObjectNode().put("class", name);
    FutureTask<String> making =
        new FutureTask<>(
            () -> {
              try (var swap = swap(loader(asked))) {
                return version(newPlugin(asked, name));
              }
            });
    Thread thread = new Thread(making, "connector-loading " + name);
    thread.setDaemon(true);
    thread.start();
    long limitMillis = asked.path("limit_ms").asLong(Long.MAX_VALUE);
    try {
      one.put("version", making.get(limitMillis, TimeUnit.MILLISECONDS));
    } catch (ExecutionException error) { // plug-in code: whatever it throws is the answer
      one.put("error", error.getCause().toString());
    } catch (TimeoutException late) {
      String where = Threads.plugInLine(thread.getStackTrace());
      one.put(
          "error",
          "its constructor or version() did not return in "
              + limitMillis / 1000.0
              + " s: it is in "
              + where);
    }
    return one;
  }

  /**
   * Returns [{"class", "type", "version"}] of all there is at a place, also without service files.
   */
  ArrayNode scan(String place) throws IOException {
    Path path = Path.of(place).toAbsolutePath();
    PluginSource source =
        PluginUtils.isolatedPluginSource(path, new ScanParent(parent), new PluginClassLoaders());
    PluginScanResult plugins = new ReflectionScanner().discoverPlugins(Set.of(source));
    ArrayNode found = Wire.JSON.createArrayNode();
    add(found, plugins.sinkConnectors());
    add(found, plugins.sourceConnectors());
    add(found, plugins.transformations());
    add(found, plugins.predicates());
    add(found, plugins.converters());
    add(found, plugins.headerConverters());
    add(found, plugins.connectorClientConfigPolicies());
    return found;
  }

  /** Makes the loader of a place that is looked through. */
  private static final class PluginClassLoaders implements PluginClassLoaderFactory {
    @Override
    public PluginClassLoader newPluginClassLoader(URL location, URL[] urls, ClassLoader parent) {
      return new PluginClassLoader(location, urls, parent);
    }
  }

  private static <U> void add(ArrayNode found, Iterable<PluginDesc<U>> some) {
    for (PluginDesc<U> one : some) {
      if (!one.location().equals(CLASS_PATH)) {
        ObjectNode plugin = found.addObject();
        plugin.put("class", one.className());
        plugin.put("type", one.typeName());
        plugin.put("version", one.version());
      }
    }
  }

  /** Has the calling thread see the classes of a plug-in until what is returned is closed. */
  static Swap swap(ClassLoader loader) {
    Thread thread = Thread.currentThread();
    ClassLoader before = thread.getContextClassLoader();
    thread.setContextClassLoader(loader);
    return () -> thread.setContextClassLoader(before);
  }

  /** Ends a {@link #swap}. */
  interface Swap extends AutoCloseable {
    @Override
    void close();
  }
}
