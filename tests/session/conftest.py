"""The S3 server, for tests that need it; programs here run as scripts."""

from tests.s3_server import s3_server as s3_server
from tests.s3_server import s3_url as s3_url

collect_ignore = ["endless_training.py", "hung_writer.py", "remote_training.py"]
