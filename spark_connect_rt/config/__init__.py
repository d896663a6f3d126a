"""Settings, each declared once as data: ConfigDef, its validators, and one module per group of settings.

Owns names, defaults and checks of workers' and connectors' settings. Must not know plug-ins: their own settings are
declared where they are implemented.
"""
