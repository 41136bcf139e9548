import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbn import Schema
from driftbn.config import MissingPolicy
from driftbn.errors import DataError, FormatError, UnknownVariableError
from tests.encoded import (
    MAX_LEVELS,
    MISSING,
    OTHER,
    RESERVED,
    Exclusion,
    ExclusionReason,
    Variable,
    VariableKind,
    level_key,
    sorted_levels,
)

CATEGORICAL = VariableKind.CATEGORICAL
NUMERIC = VariableKind.NUMERIC
COLOUR = Variable("colour", CATEGORICAL, ("blue", "red"))
AGE = Variable("age", NUMERIC, edges=(18.0, 65.5))


class TestVariable:
    def test_reserved_levels_come_after_the_regular_ones(self):
        assert COLOUR.labels == ("blue", "red", OTHER, MISSING)
        assert COLOUR.other_code == 2
        assert COLOUR.missing_code == 3
        assert COLOUR.cardinality == 4

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("-7", 0),
            ("18", 0),
            ("18.5", 1),
            ("65.5", 1),
            ("66", 2),
            ("1e9", 2),
            ("old", 3),
            ("(18, 65.5]", 3),
            (OTHER, 3),
            (MISSING, 4),
        ],
    )
    def test_number_as_text_falls_into_its_bin(self, text, code):
        assert AGE.code_of(text) == code

    def test_levels_of_a_numeric_variable_are_its_intervals(self):
        assert AGE.levels == ("(-inf, 18]", "(18, 65.5]", "(65.5, inf)")

    def test_intervals_that_do_not_fit_are_rejected(self):
        with pytest.raises(DataError, match="must be the intervals"):
            Variable("age", NUMERIC, ("low", "high"), (18.0,))

    @pytest.mark.parametrize(
        "edges", [(2.0, 1.0), (1.0, 1.0), (float("inf"),), (float("nan"),), (-float("inf"), 0.0)]
    )
    def test_edges_must_be_finite_and_rising(self, edges):
        with pytest.raises(DataError, match="finite and rising") as caught:
            Variable("x", NUMERIC, edges=edges)
        assert caught.value.column == "x"

    def test_only_a_numeric_variable_has_edges(self):
        with pytest.raises(DataError, match="only a numeric variable"):
            Variable("x", CATEGORICAL, ("a",), (1.0,))

    @pytest.mark.parametrize("levels", [("a", "a"), ("a", OTHER), (MISSING,)])
    def test_levels_differ_from_each_other_and_the_reserved_ones(self, levels):
        with pytest.raises(DataError, match="must differ"):
            Variable("x", CATEGORICAL, levels)

    def test_levels_and_reserved_levels_fit_a_byte(self):
        most = tuple(map(str, range(MAX_LEVELS)))
        assert Variable("x", CATEGORICAL, most).missing_code < 255
        with pytest.raises(DataError, match="251 levels"):
            Variable("x", CATEGORICAL, (*most, "more"))

    @given(st.lists(st.text(max_size=3), unique=True, max_size=20), st.text(max_size=3))
    def test_code_of_a_label_is_its_place(self, levels, text):
        variable = Variable("x", CATEGORICAL, tuple(t for t in levels if t not in RESERVED))
        assert [*map(variable.code_of, variable.labels)] == list(range(variable.cardinality))
        known = text in variable.labels
        assert known or variable.code_of(text) == variable.other_code

    @given(
        st.sets(st.floats(allow_nan=False, allow_infinity=False), max_size=5),
        st.floats(allow_nan=False, allow_infinity=False),
    )
    def test_text_of_a_float_falls_into_the_bin_of_the_float(self, edges, value):
        variable = Variable("x", NUMERIC, edges=tuple(sorted(edges)))
        assert variable.code_of(repr(value)) == sum(edge < value for edge in edges)


class TestLevelOrder:
    def test_numbers_come_first_and_by_value(self):
        levels = {"b", "10", "9", "-1.5", "a", "", "1e3", "007"}
        assert sorted_levels(levels) == ("-1.5", "007", "9", "10", "1e3", "", "a", "b")

    @pytest.mark.parametrize("text", ["nan", "inf", "1_000", "0x1", "\u0661", "1.2.3", "-", "."])
    def test_text_that_only_looks_like_a_number_is_text(self, text):
        assert level_key(text)[0] == 1

    @pytest.mark.slow
    @given(st.sets(st.text(alphabet=":;aZ09.-+e ", max_size=4)))
    def test_shortcut_for_plain_text_agrees_with_the_key(self, levels):
        assert sorted_levels(levels) == tuple(sorted(levels, key=level_key))


ID = Exclusion("id", ExclusionReason.ID_LIKE, "99 distinct values in 99 rows")

names = st.text(min_size=1, max_size=6)
finite = st.floats(allow_nan=False, allow_infinity=False)
categorical_variables = st.builds(
    Variable,
    names,
    st.sampled_from([CATEGORICAL, VariableKind.BOOLEAN, VariableKind.INTEGER]),
    st.lists(st.text(max_size=5).filter(lambda t: t not in {OTHER, MISSING}), unique=True).map(
        tuple
    ),
    pooled=st.booleans(),
)
numeric_variables = st.builds(
    lambda name, edges: Variable(name, NUMERIC, edges=tuple(sorted(edges))),
    names,
    st.sets(finite, max_size=5),
)
exclusions = st.builds(Exclusion, names, st.sampled_from(ExclusionReason), st.text(max_size=9))


@st.composite
def schemas(draw):
    variables = draw(st.lists(categorical_variables | numeric_variables, max_size=5))
    excluded = draw(st.lists(exclusions, max_size=3))
    unique = {item.name: item for item in (*variables, *excluded)}.values()
    return Schema(
        [v for v in unique if isinstance(v, Variable)],
        [e for e in unique if isinstance(e, Exclusion)],
        draw(st.sampled_from(MissingPolicy)),
    )


class TestSchema:
    def test_variable_is_found_by_name(self):
        schema = Schema([COLOUR, AGE], [ID])
        assert schema["colour"] is COLOUR
        assert schema.index("colour") == 1
        assert "age" in schema
        assert "id" not in schema
        assert len(schema) == 2

    def test_unknown_name_is_an_error_that_lists_the_known_ones(self):
        with pytest.raises(UnknownVariableError, match="no variable 'size'") as caught:
            Schema([COLOUR])["size"]
        assert caught.value.known == ("colour",)

    @pytest.mark.parametrize(
        ("variables", "excluded"),
        [
            ([COLOUR, COLOUR], []),
            ([COLOUR], [Exclusion("colour", ExclusionReason.CONSTANT, "")]),
            ([], [ID, ID]),
        ],
    )
    def test_name_may_stand_only_once(self, variables, excluded):
        with pytest.raises(DataError, match="only once"):
            Schema(variables, excluded)

    @pytest.mark.slow
    @given(schemas())
    def test_dict_form_survives_json_byte_for_byte(self, schema):
        text = json.dumps(schema.to_dict())
        again = Schema.from_dict(json.loads(text))
        assert again == schema
        assert json.dumps(again.to_dict()) == text

    def test_dict_form_is_as_documented(self):
        schema = Schema([AGE], [ID], MissingPolicy.REJECT)
        assert schema.to_dict() == {
            "format": "driftbn.schema",
            "version": 1,
            "missing": "reject",
            "variables": [
                {
                    "name": "age",
                    "kind": "numeric",
                    "levels": [],
                    "edges": [18.0, 65.5],
                    "pooled": False,
                    "scale": 0.0,
                    "whole": False,
                }
            ],
            "excluded": [
                {"name": "id", "reason": "id_like", "detail": "99 distinct values in 99 rows"}
            ],
        }


def changed(path, value):
    data = Schema([COLOUR, AGE], [ID]).to_dict()
    target = data
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return data


class TestFromDict:
    @pytest.mark.parametrize(
        ("path", "value", "message"),
        [
            (["format"], "other", "'format' must be"),
            (["version"], 2, "version 2 is not known"),
            (["version"], None, "version None is not known"),
            (["missing"], "drop", "must be one of 'level', 'reject'"),
            (["missing"], 3, "missing = 3 is not allowed"),
            (["variables"], "text", "'variables'"),
            (["variables"], None, "'variables'"),
            (["variables"], [7], "'name'"),
            (["variables", 0, "name"], 5, "'name' is 5"),
            (["variables", 0, "name"], "", "must not be empty"),
            (["variables", 0, "name"], "id", "only once"),
            (["variables", 0, "kind"], "fuzzy", "must be one of 'categorical'"),
            (["variables", 0, "edges"], ["1"], "must be numbers"),
            (["variables", 0, "edges"], [True], "must be numbers"),
            (["variables", 0, "edges"], [10**400], "not valid"),
            (["variables", 0, "edges"], [2, 1], "finite and rising"),
            (["variables", 1, "levels"], [1], "must be texts"),
            (["variables", 1, "levels"], ["a", "a"], "must differ"),
            (["variables", 1, "pooled"], 1, "'pooled' is 1"),
            (["excluded"], {}, "'excluded'"),
            (["excluded", 0, "reason"], "boring", "must be one of 'constant'"),
            (["excluded", 0, "detail"], None, "'detail' is None"),
        ],
    )
    def test_bad_field_is_named(self, path, value, message):
        with pytest.raises(FormatError, match=message):
            Schema.from_dict(changed(path, value))

    @pytest.mark.parametrize("data", [None, [], "x", {}, {"format": 1}])
    def test_what_is_no_schema_is_rejected(self, data):
        with pytest.raises(FormatError, match="not a schema"):
            Schema.from_dict(data)

    def test_whole_edges_read_from_json_become_floats(self):
        levels = ["(-inf, 1]", "(1, inf)"]
        data = changed(["variables", 0], {**AGE_DICT, "edges": [1], "levels": levels})
        assert Schema.from_dict(data)["age"].edges == (1.0,)


AGE_DICT = Schema([AGE]).to_dict()["variables"][0]
