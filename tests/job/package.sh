#!/bin/sh
# Tests which files and dependencies the Debian package has, or, on a machine that cannot
# make it, which files `cmake --install` writes. The Containerfile must take its packages
# from packages.txt.
#
# usage: package.sh BUILDFOLDER WORKFOLDER
set -u
. tests/support/script.sh
build=$1
own_folder "$2"

# A program must compile with the folder's pathloom.h, pathloom.pc and library alone, and
# must start. A sentence of the library shows that it did.
check_library() { # folder with include/, lib/ and share/
    pc=$(find "$1" -name pathloom.pc)
    folder=${pc%/pkgconfig/pathloom.pc}
    for file in include/pathloom.h share/man/man3/libpathloom.3 \
        "${folder#"$1/"}/cmake/pathloom/pathloom-config.cmake"; do
        [ -s "$1/$file" ] || complain "$1 has no $file"
    done
    command -v pkg-config >/dev/null || return 0
    # the shell reads the flags, in which pkg-config escapes blanks
    flags=$(PKG_CONFIG_LIBDIR="${pc%/*}" pkg-config --cflags --libs pathloom)
    eval "cc \"\$1/share/doc/pathloom/examples/read_run.c\" -o \"\$work/read_run\" $flags" ||
        complain "read_run.c does not compile with $1"
    LD_LIBRARY_PATH="$folder" "$work/read_run" "$work" 2>&1 | grep -q "there is no run in $work" ||
        complain "read_run does not start with $1"
}

check_files() { # folder with bin/ and share/
    for file in bin/pathloom share/bash-completion/completions/pathloom \
        share/doc/pathloom/LICENSE share/doc/pathloom/copyright \
        share/doc/pathloom/README.md share/doc/pathloom/docs/TUTORIAL.md \
        share/doc/pathloom/deploy/systemd/pathloom-worker.service \
        $(find docs/man -name '*.1' | sed 's#docs/man#share/man/man1#'); do
        [ -s "$1/$file" ] || complain "$1 has no $file"
    done
    objdump -p "$1/bin/pathloom" | grep -q 'NEEDED.*librocksdb' ||
        [ ! -e /usr/share/doc/librocksdb-dev/copyright ] ||
        [ -s "$1/share/doc/pathloom/copyright.rocksdb" ] ||
        complain "$1 contains RocksDB without its licenses"
    [ ! -e "$build/lib/libpathloom.so" ] || check_library "$1"
    [ "$("$1/bin/pathloom" --version)" = "$("$build/pathloom" --version)" ] ||
        complain "$1/bin/pathloom has a wrong version"
    # A page of docs/ to which README.md links must be installed, too.
    for page in $(grep -oE '\]\((docs|deploy|examples|CON|LIC)[^)#]*' "$1/share/doc/pathloom/README.md" |
        sed 's/](//'); do
        [ -e "$1/share/doc/pathloom/$page" ] || complain "README.md: no $page in $1"
    done
}
# The Containerfile names no packages. It runs tools/install.sh, which reads
# packages.txt.
grep -q '^RUN sh tools/install.sh$' Containerfile ||
    complain "the Containerfile does not install packages.txt"
for word in $(sed -n 's/.*apt-get install -y --no-install-recommends//p' Containerfile); do
    case $word in
    ./pathloom.deb | '&&' | \\) ;;
    *) complain "the Containerfile names the package $word beside packages.txt" ;;
    esac
done
# The first stage may use only files that it has copied before.
for file in $(sed -n 's/^COPY \([^-.][^ ]*\) .*/\1/p' Containerfile); do
    [ -f "$file" ] || complain "the Containerfile copies $file, which is not there"
done
for image in $(sed -n 's/^ *image: //p' deploy/kubernetes/*.yaml); do
    grep -q "podman build -t $image " Containerfile ||
        complain "deploy/kubernetes runs $image, which the Containerfile does not make"
done

# The package has the files that `cmake --install` writes.
for tool in cpack dpkg-deb dpkg-shlibdeps; do
    command -v "$tool" >/dev/null && continue
    cmake --install "$build" --prefix "$work/usr" >"$work/install.log" 2>&1 ||
        complain "cmake --install: $(tail -n 3 "$work/install.log")"
    check_files "$work/usr"
    echo "there is no $tool: the Debian package is not made"
    [ "$found" -eq 0 ] && exit 77
    exit 1
done
(cd "$build" && cpack -G DEB -D CPACK_DEBIAN_COMPRESSION_TYPE=none -B "$work/deb") >"$work/cpack.log" 2>&1 ||
    complain "cpack: $(tail -n 3 "$work/cpack.log")"
dpkg-deb -x "$work"/deb/pathloom_*.deb "$work/unpacked" || complain "no package"
check_files "$work/unpacked/usr"
depends=$(dpkg-deb -f "$work"/deb/pathloom_*.deb Depends)
# Each library that the program needs must belong to a package on which our package
# depends.
n=0
set -- "$build/pathloom"
[ ! -e "$build/lib/libpathloom.so" ] || set -- "$@" "$build/lib/libpathloom.so"
for library in $(objdump -p "$@" | awk '$1 == "NEEDED" { print $2 }' | sort -u); do
    file=$(ldd "$@" | awk -v name="$library" '$1 == name { print $3; exit }')
    [ -n "$file" ] || continue
    # If /lib is a link to /usr/lib, dpkg may know the file only by the shorter name.
    owner=$(dpkg -S "$file" 2>/dev/null || dpkg -S "$(readlink -f "$file")" 2>/dev/null ||
        dpkg -S "*/$library" 2>/dev/null)
    owner=$(echo "$owner" | head -n 1 | cut -d: -f1)
    n=$((n + 1))
    case ", $depends," in
    *", $owner,"* | *", $owner ("*) ;;
    *) complain "$library of $owner is not in Depends: $depends" ;;
    esac
done
[ "$n" -ge 14 ] || complain "only $n libraries were found"
# The packages of the libraries that are loaded when they are needed.
suggests=$(dpkg-deb -f "$work"/deb/pathloom_*.deb Suggests)
loaded=$(grep -hA 1 'pl_library_load("' base/*.c corpus/*.c modules/cpu/*.c serve/*.c \
    store/engine/*.c |
    tr -d ' \n' | grep -oE 'pl_library_load\("[^"]+","[^"]+"' | cut -d'"' -f4)
[ "$(echo "$loaded" | wc -l)" -ge 6 ] || complain "too few loaded libraries: $loaded"
for package in $loaded; do
    case ", $depends, $suggests," in
    *", $package,"* | *", $package ("*) ;;
    *) complain "$package is neither in Depends nor in Suggests" ;;
    esac
done
[ "$found" -eq 0 ] && echo "installed, packaged, and $n libraries are depended on"
exit "$found"
