package org.sparkconnectrt.host;

import java.io.File;
import java.io.IOException;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;

/**
 * The parent of the class loader of a place that is looked through. It loads what Connect's loader
 * loads, but shows the scanner Connect's own jars only: it would read the whole class path for each
 * place, Kafka's client and Jackson among it, which takes ten times the heap and the time.
 */
final class ScanParent extends URLClassLoader {
  private final ClassLoader real;

  ScanParent(ClassLoader real) {
    super(connectJars(), null);
    this.real = real;
  }

  /** Plug-ins may extend what is in these: converters, transformations. */
  private static URL[] connectJars() {
    List<URL> found = new ArrayList<>();
    for (String one : System.getProperty("java.class.path").split(File.pathSeparator)) {
      Path jar = Path.of(one);
      if (jar.getFileName().toString().startsWith("connect-")) {
        try {
          found.add(jar.toUri().toURL());
        } catch (MalformedURLException error) {
          throw new IllegalStateException(error);
        }
      }
    }
    return found.toArray(new URL[0]);
  }

  @Override
  protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
    return real.loadClass(name);
  }

  @Override
  public URL getResource(String name) {
    return real.getResource(name);
  }

  @Override
  public Enumeration<URL> getResources(String name) throws IOException {
    return real.getResources(name);
  }
}
