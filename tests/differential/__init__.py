"""Generated networks on every core, compared with other engines: hundreds of models a minute."""
