#!/bin/sh
# Compares the manifests of deploy/kubernetes with the schemas of Kubernetes 1.29 to 1.37.
# They come with the package kubernetes-validate of PyPI; it is installed into build/ if
# Python does not find it.
#
#   sh tests/kubernetes.sh
set -u
cd "$(dirname "$0")/.." || exit 70
packages=$PWD/build/kubernetes-validate
export PYTHONPATH="$packages${PYTHONPATH:+:$PYTHONPATH}"
python3 -c 'import kubernetes_validate' 2>/dev/null ||
    python3 -m pip install --quiet --target "$packages" kubernetes-validate ||
    {
        echo "skipped: pip cannot install kubernetes-validate"
        exit 77
    }
for version in 1.29 1.31 1.33 1.35 1.37; do
    python3 -m kubernetes_validate --strict --quiet -k "$version" deploy/kubernetes/*.yaml || exit 1
    echo "the manifests are valid for Kubernetes $version"
done
# a validator that accepts everything would prove nothing
sed 's/minAvailable/minAvailible/' deploy/kubernetes/job.yaml >"$packages.yaml"
if python3 -m kubernetes_validate --strict --quiet -k 1.37 "$packages.yaml" >/dev/null; then
    echo "FAILED: a misspelt field is accepted"
    exit 1
fi
