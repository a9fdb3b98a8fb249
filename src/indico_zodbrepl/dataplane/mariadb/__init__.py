"""RelStorage's MySQL adapter, repaired for MariaDB: `%import indico_zodbrepl.dataplane.mariadb`.

    <relstorage>
      create-schema false
      <mariadb>
        driver PyMySQL
        host 127.0.0.1
        port 3306
        db indico
        read_default_file /path/to/a/file/of/mode/0600
        read_timeout 30
      </mariadb>
    </relstorage>
"""
