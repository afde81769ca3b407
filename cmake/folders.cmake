# Makes one static library per folder, in the order of the layers. A folder may use only
# folders before it.
if(NOT PL_ONLY_MODULES)
  find_package(PkgConfig REQUIRED)
endif()
find_package(Threads REQUIRED)

set(PL_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wcast-qual -Wvla
    -Wformat=2 -Wswitch-enum -Wundef)
set(PL_C_WARNINGS -Wstrict-prototypes -Wmissing-prototypes)
if(PL_WERROR)
  list(APPEND PL_WARNINGS -Werror)
endif()
add_library(pl_options INTERFACE)
target_include_directories(pl_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(pl_options INTERFACE _GNU_SOURCE PL_VERSION="${PROJECT_VERSION}")
target_compile_options(pl_options INTERFACE ${PL_WARNINGS}
  $<$<COMPILE_LANGUAGE:C>:${PL_C_WARNINGS}> -fno-math-errno -ffp-contract=off)
if(PL_SANITIZE)
  # With sanitizers GCC's warnings about values are often wrong, as its manual says.
  # Emulated kernels (tests/gpu/emulation) have separate checks. The preset asan leaves
  # out the checks of UBSan that take long to compile and to run: for null pointers, the
  # size of objects and the overflow of pointers. ASan reports an access through such a
  # pointer. tests/fuzz.sh makes these checks too.
  if(PL_SANITIZE_NOT)
    set(leave_out ";-fno-sanitize=${PL_SANITIZE_NOT}")
  endif()
  target_compile_options(pl_options INTERFACE
    "$<$<NOT:$<BOOL:$<TARGET_PROPERTY:PL_UNSANITIZED>>>:-fsanitize=${PL_SANITIZE}${leave_out}>"
    -fno-omit-frame-pointer -Wno-format-truncation -Wno-format-overflow)
  target_link_options(pl_options INTERFACE -fsanitize=${PL_SANITIZE})
endif()
if(PL_ONLY_MODULES)
  target_compile_definitions(pl_options INTERFACE PL_ONLY_MODULES)
endif()

# Lets the objects of a target be linked into libpathloom. A hidden symbol is bound when
# it is linked, so the compiler may treat it as in a program.
function(pl_for_library target)
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL INTERFACE_LIBRARY)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
      C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden)
  endif()
endfunction()

# pl_folder(name DEPENDS folders... LIBS libraries... EXCLUDE patterns...): makes the
# library pl_NAME from the sources of a folder. Sources that match a pattern are left out.
function(pl_folder name)
  cmake_parse_arguments(A "" "" "DEPENDS;LIBS;EXCLUDE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${name}/*.c
       ${CMAKE_SOURCE_DIR}/${name}/*.cc)
  foreach(skip ${A_EXCLUDE})
    list(FILTER sources EXCLUDE REGEX "${skip}")
  endforeach()
  if(NOT sources)
    add_library(pl_${name} INTERFACE)
    set(kind INTERFACE)
  else()
    add_library(pl_${name} STATIC ${sources})
    set(kind PUBLIC)
  endif()
  target_link_libraries(pl_${name} ${kind} pl_options Threads::Threads m)
  foreach(dependency ${A_DEPENDS})
    target_link_libraries(pl_${name} ${kind} pl_${dependency})
  endforeach()
  target_link_libraries(pl_${name} ${kind} ${A_LIBS})
  pl_for_library(pl_${name})
endfunction()

if(PL_ONLY_MODULES)
  set(PL_BASE_SKIP "base/(hash|record|fields|json|conf|explain|zip|wire|keys|address|gate|web)")
else()
  pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
  pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
  pkg_check_modules(ZMQ REQUIRED IMPORTED_TARGET libzmq)
  pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
  pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
  pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
  # Only the headers of libarchive, libmicrohttpd and libcurl are needed here, because
  # the libraries are loaded when they are needed (base/library.h).
  pkg_check_modules(ARCHIVE REQUIRED libarchive)
  pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd) # tests link it
  pkg_check_modules(SENTENCEPIECE REQUIRED IMPORTED_TARGET sentencepiece)
  include(cmake/rocksdb.cmake)
  # Tests whether this build of xxHash can choose a vector unit when the program runs.
  include(CheckCSourceCompiles)
  set(CMAKE_REQUIRED_LIBRARIES PkgConfig::XXHASH)
  check_c_source_compiles("#include <xxh_x86dispatch.h>
    int main(void) { return (int)XXH3_64bits_dispatch(\"\", 0); }" PL_XXHASH_CHOOSES)
  unset(CMAKE_REQUIRED_LIBRARIES)
  if(PL_XXHASH_CHOOSES)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/base/hash.c PROPERTIES
                                COMPILE_DEFINITIONS PL_XXHASH_CHOOSES)
  endif()
  pkg_check_modules(CURL QUIET libcurl>=7.75)
  if(CURL_FOUND)
    set(PL_BASE_SKIP web_absent)
  else()
    set(PL_BASE_SKIP base/web\\.c)
  endif()
  set(PL_BASE_LIBS PkgConfig::SODIUM PkgConfig::XXHASH PkgConfig::ZMQ PkgConfig::ZSTD
      PkgConfig::JANSSON PkgConfig::YAML)
endif()
pl_folder(base LIBS ${PL_BASE_LIBS} ${CMAKE_DL_LIBS} EXCLUDE "${PL_BASE_SKIP}")
target_include_directories(pl_base PRIVATE ${CURL_INCLUDE_DIRS})
# Tests of models draw millions of normal values. With sanitizers, a value takes 118 ns
# at -O1 (measured before the preset asan had -Og) and 43 ns at -O3.
if(PL_SANITIZE)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/base/rng.c PROPERTIES COMPILE_OPTIONS
    -O3)
endif()
include(cmake/cuda.cmake)
include(cmake/modules.cmake)
# The measurements of operations and steps need only the modules (tests/gpu.sh).
file(GLOB probe_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/measure/probe*.c)
add_library(pl_probe STATIC ${probe_sources})
target_link_libraries(pl_probe pl_modules)
if(NOT PL_ONLY_MODULES)
  pl_folder(corpus DEPENDS base LIBS PkgConfig::SENTENCEPIECE)
  target_include_directories(pl_corpus PRIVATE ${ARCHIVE_INCLUDE_DIRS})
  include(cmake/engines.cmake)
  pl_folder(store DEPENDS base LIBS ${PL_ROCKSDB} EXCLUDE "${PL_ENGINE_SKIP}")
  pl_folder(codec DEPENDS base modules)
  pl_folder(outer DEPENDS base modules store codec)
  pl_folder(net DEPENDS base store)
  pl_folder(history DEPENDS corpus store outer net)
  pl_folder(home DEPENDS history)
  pl_folder(relay DEPENDS home)
  pl_folder(eval DEPENDS base modules corpus)
  pl_folder(router DEPENDS eval)
  pl_folder(workers DEPENDS home router)
  pl_folder(serve DEPENDS workers)
  target_include_directories(pl_serve PRIVATE ${MICROHTTPD_INCLUDE_DIRS})
  set(page_folder ${CMAKE_SOURCE_DIR}/serve/page)
  foreach(page page talk)
    file(GLOB page_parts CONFIGURE_DEPENDS ${page_folder}/* ${CMAKE_SOURCE_DIR}/serve/${page}/*)
    add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/${page}_asset.c
      COMMAND ${CMAKE_COMMAND} -DPARTS=${CMAKE_SOURCE_DIR}/serve/${page} -DSHARED=${page_folder}
              -DNAME=${page}_asset -DOUT=${CMAKE_BINARY_DIR}/${page}_asset.c
              -P ${CMAKE_SOURCE_DIR}/cmake/page.cmake
      DEPENDS ${page_parts} ${CMAKE_SOURCE_DIR}/cmake/page.cmake)
    target_sources(pl_serve PRIVATE ${CMAKE_BINARY_DIR}/${page}_asset.c)
  endforeach()
  pl_folder(config DEPENDS serve net)
  pl_folder(job DEPENDS config relay)
  pl_folder(view DEPENDS job)
  pl_folder(lib DEPENDS view)
  target_include_directories(pl_lib PUBLIC ${CMAKE_SOURCE_DIR}/lib)
  pl_folder(measure DEPENDS probe job EXCLUDE "measure/probe")
  pl_folder(cli DEPENDS view measure EXCLUDE "cli/main\\.c")
  add_executable(pathloom ${CMAKE_SOURCE_DIR}/cli/main.c)
  target_link_libraries(pathloom pl_cli)
  set_target_properties(pathloom PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
    PL_LINKS_ARCHIVE ON)
  if(NOT PL_SANITIZE) # a program with a sanitizer cannot load a library without it
    include(cmake/library.cmake)
  endif()
  add_subdirectory(examples)
  include(cmake/install.cmake)
endif()
if(PL_TESTS)
  add_subdirectory(tests)
endif()
