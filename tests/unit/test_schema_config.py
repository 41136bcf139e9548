import pytest

from driftbn.errors import ConfigError
from driftbn.records import infer_and_encode
from driftbn.schema import MissingPolicy, SchemaConfig


class TestSchemaConfig:
    def test_defaults_are_allowed(self):
        assert SchemaConfig().max_levels == 32
        assert SchemaConfig().missing is MissingPolicy.LEVEL

    def test_missing_policy_may_be_given_by_its_text(self):
        assert SchemaConfig(missing="reject").missing is MissingPolicy.REJECT

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("max_levels", 1),
            ("max_levels", 251),
            ("max_levels", 3.0),
            ("max_levels", True),
            ("max_levels", "8"),
            ("numeric_bins", 1),
            ("numeric_bins", 251),
            ("integer_levels", -1),
            ("integer_levels", 251),
            ("id_like_min_rows", 1),
            ("id_like_ratio", 0),
            ("id_like_ratio", 1.01),
            ("id_like_ratio", float("nan")),
            ("id_like_ratio", True),
            ("id_like_ratio", "0.5"),
            ("missing", "drop"),
            ("missing", None),
            ("keep_constant", 1),
            ("keep_constant", None),
            ("keep_duplicates", "yes"),
        ],
    )
    def test_value_out_of_range_is_an_error_naming_the_field(self, field, value):
        with pytest.raises(ConfigError, match=field) as caught:
            SchemaConfig(**{field: value})
        assert caught.value.field == field

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("max_levels", 2),
            ("max_levels", 250),
            ("integer_levels", 0),
            ("id_like_ratio", 1),
            ("id_like_min_rows", 2),
            ("keep_constant", True),
            ("keep_duplicates", True),
        ],
    )
    def test_limits_themselves_are_allowed(self, field, value):
        assert getattr(SchemaConfig(**{field: value}), field) == value

    def test_error_names_what_is_allowed(self):
        with pytest.raises(ConfigError, match="an integer from 2 to 250"):
            SchemaConfig(max_levels=251)
        with pytest.raises(ConfigError, match="above 0 and at most 1"):
            SchemaConfig(id_like_ratio=0.0)
        with pytest.raises(ConfigError, match="one of 'level', 'reject'"):
            SchemaConfig(missing="drop")
        with pytest.raises(ConfigError, match=r"keep_constant = 1 .* True or False"):
            SchemaConfig(keep_constant=1)

    def test_nothing_is_kept_by_default(self):
        assert not SchemaConfig().keep_constant
        assert not SchemaConfig().keep_duplicates

    def test_config_can_be_compared_and_hashed(self):
        assert SchemaConfig(missing="reject") == SchemaConfig(missing=MissingPolicy.REJECT)
        assert len({SchemaConfig(), SchemaConfig(max_levels=32)}) == 1

    def test_smallest_ratio_leaves_out_every_column_of_enough_rows(self):
        config = SchemaConfig(id_like_ratio=5e-324, id_like_min_rows=2)
        table = infer_and_encode({"x": ["a", "b", "a"]}, config)
        assert [e.reason.value for e in table.schema.excluded] == ["id_like"]
