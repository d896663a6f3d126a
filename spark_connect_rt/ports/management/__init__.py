"""What the management API asks: the values it answers with, and the Protocols behind them."""
