#!/bin/sh
# Tests tools/corpus.sh on two packages that this test makes. A second call must write
# the same documents. Hashes must choose the held-out documents. Copies and binary files
# must be left out, and bad options must be refused.
#   corpus.sh FOLDER
set -eu
. tests/support/script.sh
needs dpkg-deb tar perl zstd
root=$PWD
own_folder "$1"
mkdir "$work/debs"
cd "$work"

fail() {
    echo "corpus: $*" >&2
    exit 1
}

control() { # NAME
    mkdir -p "$1/DEBIAN"
    printf 'Package: %s\nVersion: 1:2.0-1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: x\n' \
        "$1" >"$1/DEBIAN/control"
}

page() { # NUMBER: prints lines with a quote, a backslash, a tab and a non-ASCII letter
    i=0
    while [ $i -lt 12 ]; do
        printf 'page %s line %s says "on\\off"\tover the r\303\274ck of the house\n' "$1" $i
        i=$((i + 1))
    done
}

control tiny-text
control tiny-source
mkdir -p tiny-text/usr/share/pages tiny-source/usr/src source
n=0
while [ $n -lt 300 ]; do
    page $n >tiny-text/usr/share/pages/$n.txt
    n=$((n + 1))
done
cp tiny-text/usr/share/pages/7.txt tiny-text/usr/share/pages/copy.txt
printf 'too short' >tiny-text/usr/share/pages/short.txt
(page 999 && printf '\000') >tiny-text/usr/share/pages/binary.txt
(page 998 && printf '\377') >tiny-text/usr/share/pages/latin.txt
gzip tiny-text/usr/share/pages/8.txt
{
    printf '<html><head><title>page</title></head>\n<body class="x"><!-- a\nremark -->\n'
    page html | sed 's/^/<p>  a<td>b<p>/; s/over/o<b>v<\/b>er/; s/house/\&lt;house\&gt; \&amp;lt; \&#252;\&#xfc;/; s/$/<\/p><br>/'
    printf '<script>page();\n</script></body></html>\n'
} >tiny-text/usr/share/pages/marks.html
for n in 1 2 3; do page "source $n" >source/$n.c; done
tar -cJf tiny-source/usr/src/source.tar.xz source
for name in tiny-text tiny-source; do
    dpkg-deb --root-owner-group --build $name "debs/${name}_2.0-1_all.deb" >/dev/null
done
cat >list <<'LIST'
# the columns: domain, package, version, megabytes, names of files
pages tiny-text 1:2.0-1 1 *.txt *.txt.gz
source tiny-source 1:2.0-1 1 *.c
few tiny-text 1:2.0-1 0.005 *.txt
marks tiny-text 1:2.0-1 1 *.html
LIST

make() { # OUT
    sh "$root/tools/corpus.sh" "$1" --list list --debs debs >"$1.log" 2>&1
}
make a || fail "$(tail -n 3 a.log)"
make b
for set in train valid; do
    zstd -dqc a/$set.jsonl.zst >a.$set
    zstd -dqc b/$set.jsonl.zst | cmp - a.$set || fail "two calls differ in $set"
done
cat a.train a.valid >all
[ "$(grep -c '"domain":"pages"' all)" -eq 300 ] || fail "pages: not 300 documents"
[ "$(grep -c '"domain":"source"' all)" -eq 3 ] || fail "source: not 3 documents"
few=$(grep -c '"domain":"few"' all)
{ [ "$few" -ge 3 ] && [ "$few" -le 8 ]; } || fail "few: $few documents in 5 kB"
grep '"domain":"marks"' all >marks || fail "the page in HTML is missing"
[ "$(sed 's/.*"text":"\(.*\)","domain.*/\1/; s/\\n/\n/g' marks | grep -v '^$' |
    grep -c '^page html line [0-9]* says .*over.* of the <house> &lt; üü$')" -eq 12 ] ||
    fail "the text of the page in HTML is $(cat marks)"
! grep -q 'class\|script\|remark\|title' marks || fail "marks of HTML are in the corpus"
! grep -q 'page 99[89]' all || fail "a file that is not UTF-8 text is in the corpus"
held=$(grep -c '"domain":"pages"' a.valid) || fail "no page is held out"
[ "$held" -le 15 ] || fail "$held of 300 pages are held out"
perl -MDigest::SHA=sha256_hex -ne '
    my ($text) = /^{"text":"(.*)","domain":"pages"}$/ or next;
    $text =~ s/\\n/\n/g; $text =~ s/\\t/\t/g; $text =~ s/\\(["\\])/$1/g;
    my $held = hex(substr sha256_hex($text), -8) % 100 == 0;
    die "a document is in the wrong part\n" if $held != ($ARGV eq "a.valid")
' a.train a.valid || fail "a document is not where its hash belongs"
[ "$(cat a/packages)" = "tiny-source 1:2.0-1
tiny-text 1:2.0-1" ] || fail "packages: $(cat a/packages)"
[ -z "$(find a -name 'work.*')" ] || fail "a work folder was left behind"

sed -i 's/2.0-1/2.0-2/' list
! make c || fail "a wrong version of a package was accepted"
grep -q 'not version 1:2.0-2' c.log || fail "$(cat c.log)"
code=0
sh "$root/tools/corpus.sh" >/dev/null 2>&1 || code=$?
[ $code -eq 64 ] || fail "no folder: exit code $code"
echo "corpus: all checks passed"
