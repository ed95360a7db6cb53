"""What MariaDB and MySQL share: their protocol, their storage engine and its statements. They are two engines, because their programs differ."""
