"""Settings, each declared once as data: ConfigDef, its validators, and one module per group of settings."""
