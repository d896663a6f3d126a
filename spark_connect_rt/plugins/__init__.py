"""Config providers: what stands behind ``${alias:path:key}``. They read; ``config.indirection`` decides what."""
