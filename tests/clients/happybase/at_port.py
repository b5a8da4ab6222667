"""A plugin of pytest, for happybase's own tests as they are published.

They hand the port on as text, which sockets do not take, cannot choose the protocol, and call `assert_raises`, which they do
not import. So the connection takes the port and the protocol from the environment, and the missing name is there.
"""

import builtins
import os

import happybase
import pytest

connect = happybase.Connection.__init__


def connect_at_port(self, *args, **options):
    options["port"] = int(os.environ["HAPPYBASE_PORT"])
    options.setdefault("protocol", os.environ["HAPPYBASE_PROTOCOL"])
    connect(self, *args, **options)


happybase.Connection.__init__ = connect_at_port
builtins.assert_raises = pytest.raises
