package org.sparkconnectrt.host;

/** How many polls Python takes in, and whether it has called them back. Any thread. */
final class Room {
  private int polls;
  private boolean calledBack;
  private boolean closed;

  /** What the task's thread does next. */
  enum Next {
    POLL,
    SAY_IDLE,
    END
  }

  /** Grants so many more; 0 takes all of them back, which is answered once no poll is under way. */
  synchronized void grant(int more) {
    if (more == 0) {
      polls = 0;
      calledBack = true;
    } else {
      polls += more;
    }
    notifyAll();
  }

  /** A poll brought nothing: another one may be made in its place, unless it was called back. */
  synchronized void giveBack() {
    if (!calledBack) {
      polls++;
    }
  }

  synchronized void close() {
    closed = true;
    notifyAll();
  }

  synchronized Next next() throws InterruptedException {
    while (!closed && !calledBack && polls == 0) {
      wait();
    }
    if (closed) {
      return Next.END;
    }
    if (calledBack) {
      calledBack = false;
      return Next.SAY_IDLE;
    }
    polls--;
    return Next.POLL;
  }
}
