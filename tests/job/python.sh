#!/bin/sh
# Tests the Python package by pytest: what it returns must agree with what the verbs
# print. pip must make a wheel of it that has no compiled code.
#
# usage: python.sh BUILDFOLDER PATHLOOM WORKFOLDER   (in the project's root)
set -u
build=$1
pathloom=$2
. tests/support/job.sh
own_folder "$3"
for python in python3 /usr/bin/python3 none; do
    "$python" -c 'import numpy, pytest' 2>/dev/null && break
done
[ "$python" != none ] || { echo "no python3 has numpy and pytest" && exit 77; }

make_corpus base eval
(small_job run --set train.tau=10 --set train.phases=3 --set train.base_steps=20 \
    --set workers.precision=f32) >"$work/run.out" 2>&1 || fail "the job"
"$pathloom" store tag before 1 --run "$work/run" >"$work/tag.out" 2>&1 || fail "store tag"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=python PATHLOOM_LIBRARY="$build/lib/libpathloom.so" \
    PATHLOOM="$pathloom" PATHLOOM_RUN="$work/run" PATHLOOM_TEXT="$PWD/base/buf.h"
"$python" -m pytest -q -p no:cacheprovider python/tests >"$work/pytest.out" 2>&1 ||
    { tail -n 60 "$work/pytest.out" && fail "pytest"; }
tail -n 1 "$work/pytest.out"

cp -r python "$work/package"
if "$python" -c 'import setuptools, wheel, pip' 2>/dev/null; then
    "$python" -m pip wheel --no-index --no-build-isolation --no-deps -w "$work" \
        "$work/package" >"$work/wheel.out" 2>&1 || fail "pip wheel"
    [ -f "$work/pathloom-0.1.0-py3-none-any.whl" ] || fail "the wheel is not pure"
fi
