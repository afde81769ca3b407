# Compiles the CUDA backend with nvcc, if PL_CUDA is on and nvcc is found. (The tests
# also compile it as C++ with the headers of tests/gpu/emulation/toolkit, without CUDA.)
#
# nvcc is called directly, because the CUDA support of CMake would use the device at
# configure time and link every program with nvcc.
#
# The sources are compiled in a few units, each a generated file that includes several
# of them. For a short source, nvcc needs more time for the toolkit's headers than for
# the rest. So no two sources may define the same name (docs/CUDA.md).
set(PL_CUDA_UNITS 4)
file(GLOB PL_CUDA_FILES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/modules/cuda/*.cu)
set(n 0)
foreach(source ${PL_CUDA_FILES})
  math(EXPR unit "${n} % ${PL_CUDA_UNITS} + 1")
  file(RELATIVE_PATH name ${CMAKE_SOURCE_DIR} ${source})
  string(APPEND unit_${unit} "#include \"${name}\"\n")
  math(EXPR n "${n} + 1")
endforeach()
foreach(unit RANGE 1 ${PL_CUDA_UNITS})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/cuda/unit_${unit}.cu CONTENT "${unit_${unit}}")
  list(APPEND PL_CUDA_SOURCES ${CMAKE_BINARY_DIR}/cuda/unit_${unit}.cu)
endforeach()
find_program(PL_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
set(PL_CUDA_ARCHITECTURES "80;90" CACHE STRING "compute capabilities to compile for; the highest one also as PTX")
if(DEFINED ENV{PL_CUDA_ARCHITECTURES}) # not kept for later builds in this folder
  set(PL_CUDA_ARCHITECTURES $ENV{PL_CUDA_ARCHITECTURES})
endif()

set(PL_NVCC_OPTIONS -std=c++17 -O3 -lineinfo --fmad=false --expt-relaxed-constexpr
    -Xcompiler=-Wall,-Wextra,-Wno-unused-function -D_GNU_SOURCE -I${CMAKE_SOURCE_DIR})
if(PL_WERROR) # spilled registers and serialised products fail the build
  list(APPEND PL_NVCC_OPTIONS --Werror=all-warnings -Xptxas=--warn-on-spills,-v)
  set(PL_NVCC_CHECK sh ${CMAKE_SOURCE_DIR}/tools/nvcc.sh)
endif()
# Code for compute capability 9.0 is compiled for sm_90a: it may use instructions that
# no other device has.
list(SORT PL_CUDA_ARCHITECTURES COMPARE NATURAL)
foreach(capability ${PL_CUDA_ARCHITECTURES})
  string(REGEX REPLACE "^90$" "90a" exact ${capability})
  list(APPEND PL_NVCC_OPTIONS -gencode=arch=compute_${exact},code=sm_${exact})
  if(exact STREQUAL 90a)
    list(APPEND PL_NVCC_OPTIONS -DPL_CUDA_GROUP_PRODUCTS)
  endif()
  set(newest ${capability})
endforeach()
list(APPEND PL_NVCC_OPTIONS -gencode=arch=compute_${newest},code=compute_${newest})
if(PL_ONLY_MODULES)
  list(APPEND PL_NVCC_OPTIONS -DPL_ONLY_MODULES)
endif()

# pl_nvcc(objects sources...): compiles the sources with nvcc; `objects` gets the object
# files.
function(pl_nvcc result)
  foreach(source ${ARGN})
    get_filename_component(name ${source} NAME)
    set(object ${CMAKE_BINARY_DIR}/cuda/${name}.o)
    add_custom_command(OUTPUT ${object} DEPENDS ${source} DEPFILE ${object}.d
      COMMAND ${PL_NVCC_CHECK} ${CMAKE_CXX_COMPILER_LAUNCHER} ${PL_NVCC} ${PL_NVCC_OPTIONS} -MMD -MF ${object}.d
              -c ${source} -o ${object}
      COMMENT "nvcc ${name}" VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set(${result} ${objects} PARENT_SCOPE)
endfunction()

# The CUDA runtime is linked statically, and looks for the driver when it is first
# called. cuBLAS is loaded when the first cuda backend is opened (modules/cuda/blas.cu).
if(PL_CUDA AND PL_NVCC)
  get_filename_component(toolkit ${PL_NVCC} REALPATH)
  get_filename_component(toolkit ${toolkit}/../.. ABSOLUTE)
  find_library(PL_CUDART cudart_static HINTS ${toolkit}/lib64 ${toolkit}/lib
    ${toolkit}/targets/x86_64-linux/lib ${toolkit}/targets/sbsa-linux/lib)
endif()
if(PL_CUDA AND PL_NVCC AND PL_CUDART)
  get_filename_component(libraries ${PL_CUDART} DIRECTORY)
  list(APPEND PL_NVCC_OPTIONS -DPL_CUDA_LIBRARIES="${libraries}")
  pl_nvcc(PL_CUDA_OBJECTS ${PL_CUDA_SOURCES})
  add_library(pl_cuda STATIC ${PL_CUDA_OBJECTS})
  set_target_properties(pl_cuda PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(pl_cuda PUBLIC pl_base ${PL_CUDART} stdc++ dl rt)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/modules/backend.c PROPERTIES
    COMPILE_DEFINITIONS PL_HAVE_CUDA)
  set(PL_HAVE_CUDA ON)
endif()
message(STATUS "CUDA backend: ${PL_HAVE_CUDA} (${PL_NVCC})")
