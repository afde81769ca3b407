#!/bin/sh
# Tests libpathloom as a foreign program finds it: from an installation in a folder,
# with the flags of pkg-config or the CMake package alone. The examples and
# library_check.c must compile without warnings, read a run while it trains and
# afterwards, and agree with what the verbs print.
#
# usage: library.sh BUILDFOLDER PATHLOOM WORKFOLDER   (in the project's root)
set -u
build=$1
pathloom=$2
. tests/support/job.sh
own_folder "$3"
run=$work/run
for tool in cc pkg-config nm; do
    command -v "$tool" >/dev/null || { echo "there is no $tool" && exit 77; }
done

passes install "cmake --install" cmake --install "$build" --prefix "$work/usr" --strip
pc=$(find "$work/usr" -name pathloom.pc)
libraries=${pc%/pkgconfig/pathloom.pc}
# No .pc file of another library may be needed.
export PKG_CONFIG_LIBDIR="${pc%/*}" LD_LIBRARY_PATH="$libraries"

# ---- exported names: those that the header declares, and no others ----
grep -oE 'pathloom_[a-z_]+\(' lib/pathloom.h | tr -d '(' | sort -u >"$work/declared"
nm -D --defined-only "$libraries/libpathloom.so" | awk '{ print $3 }' | sort >"$work/exported"
cmp "$work/declared" "$work/exported" || fail "exported and declared names differ: $(
    comm -3 "$work/declared" "$work/exported" | head)"
[ "$(wc -l <"$work/declared")" -le 60 ] || fail "there are more than 60 functions"
page=$(find "$work/usr" -name libpathloom.3)
while read -r name; do
    case $name in
    *_defaults | *_version | *_status_name | *_describe | *_n_paths | *_vocab | *_context) ;;
    *) grep -q "$name" "$page" || fail "the manual page does not name $name" ;;
    esac
done <"$work/declared"
soname=$(objdump -p "$libraries/libpathloom.so" | awk '$1 == "SONAME" { print $2 }')
[ -e "$libraries/$soname" ] || fail "there is no file for the soname $soname"

# ---- compiling ----
compile() { # program, source, options
    program=$1 source=$2
    shift 2
    # the shell reads the flags, in which pkg-config escapes blanks
    eval "set -- $(pkg-config --cflags --libs pathloom) \"\$@\""
    passes compile "$source does not compile against the installation" \
        cc -std=c11 -Wall -Wextra -Wpedantic -Werror "$source" -o "$work/$program" "$@"
}
compile train_one examples/train_one.c -lm
compile read_run examples/read_run.c
compile library_check tests/job/library_check.c -lm -pthread -D_GNU_SOURCE
for language in c c++; do
    printf '#include <pathloom.h>\nint main(void) { return pathloom_version()[0] == 0; }\n' |
        cc -x $language -Wall -Wextra -Wpedantic -Werror -I"$work/usr/include" -fsyntax-only - \
            >"$work/compile.out" 2>&1 || fail "pathloom.h is not $language"
done
mkdir "$work/project"
cp examples/read_run.c "$work/project"
cat >"$work/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(reader C)
find_package(pathloom 0.1 REQUIRED)
add_executable(reader read_run.c)
target_link_libraries(reader pathloom::pathloom)
END
# The compiler was tested above.
{ cmake -S "$work/project" -B "$work/project/build" -DCMAKE_PREFIX_PATH="$work/usr" -DCMAKE_C_COMPILER_FORCED=TRUE &&
    cmake --build "$work/project/build"; } >"$work/cmake.out" 2>&1 ||
    fail "the CMake package does not work"

# ---- a run, while it trains and afterwards ----
make_corpus base eval
(PATHLOOM_FAILPOINT=hub.grant.after@hub:stop:2 small_job run --set train.tau=5 --set train.phases=2 --set train.base_steps=10 \
    --set workers.precision=f32 $patient) >"$work/run.out" 2>&1 &
job=$!
training_begins run
"$work/read_run" "$run" >"$work/live.out" 2>&1 || fail "read_run of a run that trains"
grep -q ', training, newest mixture mix$' "$work/live.out" || fail "the run does not train"
grep -q '^mix/L1.E0@' "$work/live.out" || fail "a run that trains has no modules"
let_go hub
job_ends "the job"
"$work/project/build/reader" "$run" >"$work/ended.out" 2>&1 || fail "read_run"
grep -q ', finished, newest mixture mix$' "$work/ended.out" || fail "the run is not finished"
sed -n 's/^\([a-z]*\/[A-Za-z0-9.]*\)@\([0-9]*\)  \([0-9a-f]*\)  .*/\1 \2 \3/p' "$work/ended.out" \
    >"$work/by_library"
versions --run "$run" | awk '{ print $1, $2, substr($3, 1, 12) }' >"$work/by_verb"
[ -s "$work/by_verb" ] || fail "there are no versions"
cmp "$work/by_verb" "$work/by_library" || fail "read_run and store ls list different versions"

# The mean of a tensor, as `store cat` gives its values.
tensor=model.layers.0.mlp.up_proj.weight
"$work/read_run" "$run" L1.E0@2 >"$work/tensors.out" 2>&1 || fail "read_run MODULE@VERSION"
"$pathloom" store cat L1.E0@2 $tensor --run "$run" --format text >"$work/values" ||
    fail "store cat"
awk -v name=$tensor 'NR == FNR { sum += $1; n++; next }
    $1 == name { d = $6 - sum / n; found = n == $2 * $4 && d < 1e-8 && d > -1e-8 }
    END { exit !found }' "$work/values" "$work/tensors.out" || fail "the values of $tensor differ"

# The path that answers, and the answer.
"$pathloom" route --run "$run" --prompt "int main" --json >"$work/route.json" || fail "route"
"$pathloom" generate --run "$run" --prompt "int main" --json >"$work/generate.json" \
    2>"$work/generate.out" || fail "generate"
"$work/read_run" "$run" --prompt "int main" >"$work/answer.out" 2>&1 || fail "read_run --prompt"
path=$(sed 's/^{"path":"\([^"]*\)".*/\1/' "$work/route.json")
grep -q "^$path answers: " "$work/answer.out" || fail "read_run and route name different paths"
if command -v jq >/dev/null; then
    jq -r '.prompt + .text' "$work/generate.json" >"$work/text"
    sed '1,/^int main/{/^int main/!d}' "$work/answer.out" | cmp - "$work/text" ||
        fail "read_run and generate write different texts"
fi

# Errors, cancelling, threads, tags and scores.
"$pathloom" store merge soup mix@1 mix@2 --run "$run" >"$work/merge.out" 2>&1 || fail "store merge"
cp base/buf.h "$work/text.h"
passes checked "library_check" "$work/library_check" "$run" "$work" soup "$work/text.h"
[ "$(cut -d ' ' -f 1 "$work/checked.out" | tr '\n' ' ')" = "score tagged " ] ||
    fail "the library has printed something"
"$pathloom" eval --run "$run" --on "$work/text.h" --json >"$work/eval.json" 2>"$work/eval.out" ||
    fail "eval --on"
grep -o '{"document":[^}]*}' "$work/eval.json" | head -n 1 | tr -d '{}"' | tr ',' '\n' |
    awk -F: 'NR == FNR { value[$1] = $2; next }
        $1 ~ /^score / { split($1, s, " "); d = s[3] - value["bits_per_byte"]
            found = s[2] == value["path"] && s[5] == value["scored_bytes"] && d < 1e-5 && d > -1e-5 }
        END { exit !found }' - "$work/checked.out" || fail "score and eval --on differ"

# Training with the installed example. tests/job/train_one.sh tests that it learns.
passes one "train_one" "$work/train_one" --out "$work/one" --text "$work/corpus" --vocab 400 \
    --steps 2 --threads 1 --prompt "int main"
grep -q '^text   int main' "$work/one.out" || fail "train_one does not continue a text"
rm -rf "${work:?}/usr"
echo "$(wc -l <"$work/declared") functions"
