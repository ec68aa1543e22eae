#!/usr/bin/env bash
# Changes the code that decides what is returned, piece by piece, and sees that a test notices each change; in a copy of
# the tree, because mutmut wants packages below src/. Arguments are patterns of mutants, such as '*matching*'.
# HALF=store takes the conditions of the statement that filters, which needs a database and half an hour, instead of
# the rules themselves. Fails where a change goes unnoticed that is not in scripts/mutants.txt; docs/testing.md tells why
# nobody can notice those.
set -euo pipefail
cd "$(dirname "$0")/.."
bin="$PWD/.venv/bin"
copy=build/mutation
package=src/formulary_catalog

if [ "${HALF:-rules}" = store ]; then
    modules=("$package"/store/search/filters.py)
    tests=(tests/property/store/test_matching_equals_sql.py tests/property/kernel/search/test_filter_through_service.py)
else
    modules=(
        "$package"/domain/{text,workflows/labels,workflows/matching}.py
        "$package"/domain/search/{terms,query,spelling,synonyms,candidates,fit,scoring,confidence,caution,label_weights}.py
        "$package"/kernel/search/planning.py
    )
    tests=(
        tests/property/domain/{test_text_words,workflows/test_label_rules}.py
        tests/property/domain/search/test_{scoring_rules,places,terms,query_grammar}.py
        tests/unit/domain/{search/test_{caution,spelling,synonyms},workflows/test_usual_labels}.py
        tests/unit/kernel/search/test_planning.py
    )
fi

list() { printf '"%s", ' "$@"; }

rm -rf "$copy"
mkdir -p "$copy/src" "$copy/catalog"
cp -pr catalog/formulary_catalog operator/formulary_operator "$copy/src"
cp -pr catalog/workflows "$copy/catalog"
cp -pr tests pyproject.toml "$copy"
cat >>"$copy/pyproject.toml" <<END

[tool.mutmut]
source_paths = ["$package"]
only_mutate = [$(list "${modules[@]}")]
also_copy = ["catalog"]
pytest_add_cli_args = ["-p", "no:cacheprovider", "--hypothesis-profile", "mutants"]
pytest_add_cli_args_test_selection = [$(list "${tests[@]}")]
process_isolation = "forkserver"  # the model's threads would be missing in a fork of a process that has used it
track_dependencies = false
use_git_change_detection = false
use_setproctitle = false
END
cd "$copy"
"$bin/mutmut" run --max-children "${JOBS:-2}" "$@"

# What a mutant changes, as scripts/mutants.txt has it: numbers of mutants would change with the code before them. Left
# out is what nobody can notice anywhere: zip of sides that have one length without `strict`, SQL in capitals.
change() {
    local place=${1#formulary_catalog.} shown before after
    shown=$("$bin/mutmut" show "$1")
    before=$(sed -n 's/^- *\([^- ].*\)/\1/p' <<<"$shown")
    after=$(sed -n 's/^+ *\([^+ ].*\)/\1/p' <<<"$shown")
    if [[ $place == store.* && ${before,,} == "${after,,}" ]] || grep -qE 'strict=(None|False)|zip\(.*, \)' <<<"$after"; then
        return
    fi
    sed "s|^|${place%__mutmut_*}: |" <<<"$after"
}

unnoticed=$("$bin/mutmut" results | sed -nE 's/^ *([^ ]+): (survived|no tests|suspicious|segfault)$/\1/p')
found=$(for mutant in $unnoticed; do change "$mutant"; done)
unexpected=$(grep -vxFf ../../scripts/mutants.txt <<<"$found" || true)
if [ -n "$unexpected" ]; then
    printf 'No test notices these changes:\n%s\n' "$unexpected" >&2
    exit 1
fi
echo "Every change is noticed, but for $(wc -w <<<"$unnoticed") that nobody can notice."
