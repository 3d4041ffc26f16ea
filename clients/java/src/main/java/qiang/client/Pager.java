package qiang.client;

import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Function;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** List that is read page by page. Iterate over it for all entries. One thread at a time may use it. */
public final class Pager<T> implements Iterable<T> {
    private final Function<String, Page<T>> fetch;
    private final boolean endless;
    private String after;
    private boolean over;

    Pager(Function<String, Page<T>> fetch, String after, boolean endless) {
        this.fetch = fetch;
        this.after = after;
        this.endless = endless;
    }

    /** Cursor after the last page that was read. Keep that of {@code listEvents}, and continue there later. */
    public String cursor() {
        return after;
    }

    /** Whether the last page was read. */
    public boolean isOver() {
        return over;
    }

    /** Reads the next page. It moves the cursor. A page may be short or empty and still have a next one. */
    public Page<T> page() {
        Page<T> page = fetch.apply(after);
        if (page.next() != null) {
            after = page.next();
        }
        // The list of events always has a next page: later events are on it.
        over = page.next() == null || (endless && page.data().isEmpty());
        return page;
    }

    /** All entries from the cursor on. */
    public Stream<T> stream() {
        return StreamSupport.stream(spliterator(), false);
    }

    @Override
    public Iterator<T> iterator() {
        return new Iterator<>() {
            private Iterator<T> rest = List.<T>of().iterator();
            private boolean started;

            @Override
            public boolean hasNext() {
                while (!rest.hasNext() && !(started && over)) {
                    started = true;
                    rest = page().data().iterator();
                }
                return rest.hasNext();
            }

            @Override
            public T next() {
                if (!hasNext()) {
                    throw new NoSuchElementException();
                }
                return rest.next();
            }
        };
    }
}
