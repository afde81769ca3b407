#!/bin/sh
# Makes a corpus of many domains from Debian packages. The packages are only unpacked,
# not installed.
#
#   sh tools/corpus.sh OUT                     OUT/train.jsonl.zst, OUT/valid.jsonl.zst
#   sh tools/corpus.sh OUT --list FILE         packages in FILE, not in tools/corpus.list
#   sh tools/corpus.sh OUT --debs FOLDER       packages from a folder, without apt-get
#
# The list pins the version of every package, so two calls make the same documents. A
# document is a file of 400 bytes to 256 KiB in UTF-8; a file that occurs twice counts
# once; of an HTML file only the text counts. One of a hundred documents goes to
# valid.jsonl.zst; the SHA-256 of a text decides whether it goes there. If a domain has
# more text than the list allows, the documents with the lowest SHA-256 are kept.
# OUT/packages has the names and versions of the packages. Needs apt-get, dpkg-deb, tar,
# perl and zstd, and about 2.5 GB of disk while it runs. Exit code 69: a tool or a
# package is missing.
set -eu
usage() {
    echo "corpus.sh: $1; the top of tools/corpus.sh lists the options" >&2
    exit 64
}

list=$(dirname "$0")/corpus.list
debs=
[ $# -gt 0 ] || usage "a folder for the corpus is missing"
out=$1
shift
while [ $# -gt 0 ]; do
    [ $# -gt 1 ] || usage "$1 needs a value"
    case $1 in
    --list) list=$2 ;;
    --debs) debs=$2 ;;
    *) usage "unknown option $1" ;;
    esac
    shift 2
done
for tool in dpkg-deb tar perl zstd; do
    command -v $tool >/dev/null || {
        echo "corpus.sh: $tool is missing" >&2
        exit 69
    }
done
[ -s "$list" ] || usage "the list $list is missing or empty"
list=$(realpath "$list")
[ -z "$debs" ] || debs=$(realpath "$debs")
mkdir -p "$out"
out=$(realpath "$out")
work=$(mktemp -d "$out/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# Unpacks a package into $work/NAME. If the package contains an archive of sources,
# unpacks that, too.
unpack() { # NAME VERSION
    [ ! -d "$work/$1" ] || return 0
    if [ -n "$debs" ]; then
        found=$(ls "$debs/$1"_*.deb)
    else
        (cd "$work" && apt-get -q download "$1=$2" >&2) || {
            echo "corpus.sh: apt-get has no $1 $2; run apt-get update, or change the" \
                "version in $list" >&2
            exit 69
        }
        found=$(ls "$work/$1"_*.deb)
    fi
    [ "$(dpkg-deb -f "$found" Version)" = "$2" ] || {
        echo "corpus.sh: $found is not version $2, which $list asks for" >&2
        exit 69
    }
    mkdir "$work/$1"
    dpkg-deb -x "$found" "$work/$1"
    [ -n "$debs" ] || rm "$found"
    find "$work/$1" -type f -name '*.tar.xz' | while read -r archive; do
        tar -xf "$archive" -C "$work/$1"
        rm "$archive"
    done
}

# Reads names of files; prints "set <TAB> JSON" per document, lowest hash first.
documents() { # DOMAIN MEGABYTES
    perl -MDigest::SHA=sha256_hex -e '
        use strict;
        my ($domain, $left, %file) = ($ARGV[0], $ARGV[1] * 1e6);
        sub text_of {
            my $name = shift;
            my $in;
            ($name =~ /\.gz$/ ? open($in, "-|", "gzip", "-dc", $name)
                              : open($in, "<", $name)) or die "cannot read $name: $!\n";
            binmode $in;
            local $/;
            my $text = scalar(<$in>) // "";
            return $name =~ /\.html$/ ? without_marks($text) : $text;
        }
        sub without_marks { # the text of an HTML page, without empty lines
            my $text = shift;
            my $inline = "a|abbr|acronym|b|code|em|font|i|kbd|s|small|span|strong|sub|sup|tt|u|var";
            $text =~ s/<!--.*?-->|<(script|style|head)\b.*?<\/\1>|<\/?($inline)\b[^>]*>//gsi;
            $text =~ s/<[^>]*>/\n/g;
            my %sign = (lt => 60, gt => 62, quot => 34, nbsp => 32, amp => 38);
            $text =~ s/&(?:(lt|gt|quot|nbsp|amp)|#([0-9]{1,6})|#x([0-9a-f]{1,5}));/
                my $c = chr($1 ? $sign{lc $1} : $2 || hex $3); utf8::encode($c); $c/gie;
            $text =~ s/\s*\n/\n/g;
            $text =~ s/^\n//;
            return $text;
        }
        while (my $name = <STDIN>) {
            chomp $name;
            my $text = text_of($name);
            next if length $text < 400 || length $text > 262144 || $text =~ /\0/;
            my $copy = $text;
            next unless utf8::decode($copy);
            my $hash = sha256_hex($text);
            $file{$hash} = $name if !exists $file{$hash} || $name lt $file{$hash};
        }
        for my $hash (sort keys %file) {
            my $text = text_of($file{$hash});
            last if ($left -= length $text) < 0;
            $text =~ s/([\\"])/\\$1/g;
            $text =~ s/\n/\\n/g;
            $text =~ s/\t/\\t/g;
            $text =~ s/([\x01-\x1f])/sprintf("\\u%04x", ord $1)/ge;
            my $set = hex(substr $hash, -8) % 100 == 0 ? "valid" : "train";
            print "$set\t{\"text\":\"$text\",\"domain\":\"$domain\"}\n";
        }' "$1" "$2"
}

set -f # the list has patterns for find, not for the shell
: >"$work/packages"
grep -v '^#' "$list" | while read -r domain name version megabytes patterns; do
    set +f
    unpack "$name" "$version"
    set -f
    echo "$name $version" >>"$work/packages"
    for pattern in $patterns; do
        find "$work/$name" -type f -name "$pattern"
    done | LC_ALL=C sort -u | documents "$domain" "$megabytes" >"$work/domain"
    sed -n 's/^train\t//p' "$work/domain" >>"$work/train.jsonl"
    sed -n 's/^valid\t//p' "$work/domain" >>"$work/valid.jsonl"
    echo "$domain: $(wc -l <"$work/domain") documents," \
        "$(($(wc -c <"$work/domain") / 1000000)) MB of $name $version"
done
LC_ALL=C sort -u "$work/packages" >"$out/packages"
for set in train valid; do
    [ -s "$work/$set.jsonl" ] || {
        echo "corpus.sh: no document is left for $set; name more packages in the list" >&2
        exit 69
    }
    zstd -q -f "$work/$set.jsonl" -o "$out/$set.jsonl.zst"
    echo "$out/$set.jsonl.zst: $(wc -l <"$work/$set.jsonl") documents," \
        "$(($(wc -c <"$work/$set.jsonl") / 1000000)) MB"
done
