# Steps and codecs on a GPU (outer/accel.h): the kernels where nvcc is found, else what
# says that there are none.
file(GLOB PL_ACCEL_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/outer/cuda/*.cu)
add_library(pl_accel_arith OBJECT ${CMAKE_SOURCE_DIR}/outer/accel_arith.c)
target_link_libraries(pl_accel_arith PRIVATE pl_options)
if(PL_HAVE_CUDA)
  pl_nvcc(PL_ACCEL_OBJECTS ${PL_ACCEL_SOURCES})
  add_library(pl_accel STATIC ${PL_ACCEL_OBJECTS} $<TARGET_OBJECTS:pl_accel_arith>)
  set_target_properties(pl_accel PROPERTIES LINKER_LANGUAGE CXX)
else()
  add_library(pl_accel STATIC ${CMAKE_SOURCE_DIR}/outer/accel_absent.c
    $<TARGET_OBJECTS:pl_accel_arith>)
endif()
target_link_libraries(pl_accel PUBLIC pl_outer)
