"""The S3 server, for tests that need it."""

from tests.s3_server import s3_server as s3_server
from tests.s3_server import s3_url as s3_url
