"""Reports on keyed streams, by Spark: from a directory or a Kafka topic, into a directory.

``./submit.sh --files /data/in --schema "shop string, n long, price double" --key shop --order n
--window 5000 --out /data/reports --checkpoint /data/checkpoint``
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming import DataStreamReader

from driftbn import MonitorConfig
from driftbn.config import WindowConfig
from driftbn.spark import GROUPS, TRANSFORM, monitor_stream, monitor_table


def main() -> None:
    arguments = parsed()
    spark = SparkSession.builder.appName("driftbn").getOrCreate()
    window = WindowConfig(size=arguments.window, seconds=arguments.seconds)
    config = MonitorConfig(
        window=window, time_column=arguments.time, max_rows_per_window=arguments.max_rows
    )
    if arguments.table:
        rows = spark.read.parquet(arguments.files)
        reports = monitor_table(rows, arguments.key, config, time=arguments.order)
        reports.write.mode("overwrite").parquet(arguments.out)
        return
    reports = monitor_stream(
        records(spark.readStream, arguments),
        arguments.key,
        config,
        order=arguments.order,
        watermark=arguments.watermark,
        numbered=arguments.numbered,
        backend=arguments.backend,
    )
    writer = reports.writeStream.option("checkpointLocation", arguments.checkpoint)
    if arguments.until_drained:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=arguments.every)
    writer.foreachBatch(into_directory(arguments.out)).start().awaitTermination()


def records(reader: DataStreamReader, arguments: argparse.Namespace) -> DataFrame:
    """Return the records: Parquet files, or JSON messages with their ``offset``."""
    if arguments.files is not None:
        reader = reader.schema(arguments.schema).option("maxFilesPerTrigger", arguments.most)
        return reader.parquet(arguments.files)
    broker, _, topic = arguments.kafka.rpartition("/")
    options = {"kafka.bootstrap.servers": broker, "subscribe": topic, "startingOffsets": "earliest"}
    messages = reader.format("kafka").options(**options, maxOffsetsPerTrigger=arguments.most).load()
    record = sql.from_json(messages["value"].cast("string"), arguments.schema)
    return messages.select(record.alias("record"), "offset").select("record.*", "offset")


def into_directory(path: str) -> Callable[[DataFrame, int], None]:
    """Return what writes the reports of each batch; a batch that is done again overwrites."""

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(f"{path}/batch={number}")
        print(f"batch {number}", flush=True)  # noqa: T201

    return write


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--files", help="directory of Parquet files")
    source.add_argument("--kafka", help="HOST:PORT/TOPIC")
    parser.add_argument("--schema", help="the columns of a stream, as in SQL")
    parser.add_argument("--key", required=True, help="the column that tells the streams apart")
    parser.add_argument("--order", default="offset", help="the column that orders a stream")
    parser.add_argument("--window", type=int, default=5000, help="most rows of a window")
    parser.add_argument("--seconds", type=float, help="after which a window ends even so")
    parser.add_argument("--time", help="the column with event times")
    parser.add_argument("--watermark", help="how late a record may be, such as '10 minutes'")
    parser.add_argument("--max-rows", type=int, help="records that a window keeps")
    parser.add_argument(
        "--numbered", action="store_true", help="the order is the record's number in its stream"
    )
    parser.add_argument("--backend", choices=[GROUPS, TRANSFORM], default=GROUPS)
    parser.add_argument("--most", default="1000", help="files or messages in a batch")
    parser.add_argument("--every", default="10 seconds", help="how often there is a batch")
    parser.add_argument("--until-drained", action="store_true", help="end when all is read")
    parser.add_argument("--table", action="store_true", help="take the files as one table")
    parser.add_argument("--out", required=True, help="directory of the reports")
    parser.add_argument("--checkpoint", help="directory of the state of a stream")
    return parser.parse_args()


if __name__ == "__main__":
    main()
