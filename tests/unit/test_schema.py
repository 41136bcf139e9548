import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbn.errors import DataError, FormatError, UnknownVariableError
from driftbn.schema import (
    Exclusion,
    ExclusionReason,
    MissingPolicy,
    Schema,
    Variable,
    VariableKind,
)
from driftbn.variables import MISSING, OTHER

CATEGORICAL = VariableKind.CATEGORICAL
NUMERIC = VariableKind.NUMERIC
COLOUR = Variable("colour", CATEGORICAL, ("blue", "red"))
AGE = Variable("age", NUMERIC, edges=(18.0, 65.5))
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
    def test_variables_are_kept_in_order_of_name(self):
        assert Schema([COLOUR, AGE]).names == ("age", "colour")
        assert Schema([COLOUR, AGE]) == Schema([AGE, COLOUR])

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

    def test_empty_schema_is_legal(self):
        assert len(Schema([])) == 0

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
                    "levels": ["(-inf, 18]", "(18, 65.5]", "(65.5, inf)"],
                    "edges": [18.0, 65.5],
                    "pooled": False,
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
