"""From any table to small-integer codes: reading columns, inferring levels, encoding."""
