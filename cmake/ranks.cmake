# Tests that run as several ranks. Include this file, then
#   aorta_rank_test(NAME PROGRAM RANKS 1 2 4 [ARGS argument...])
# makes a CTest test NAME.N for each number of ranks. One rank runs without mpirun (backend "local").
#
# Open MPI is not instrumented by the sanitizers; what they would misread in it is listed in tests/*.supp. Tests that
# start ranks by other means (aorta launch) get the same settings with aorta_rank_environment(TEST...).
find_program(AORTA_MPIRUN NAMES mpirun.openmpi mpirun)

set(AORTA_RANK_ENVIRONMENT
    OMPI_ALLOW_RUN_AS_ROOT=1
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_rmaps_base_oversubscribe=1
    OMPI_MCA_hwloc_base_binding_policy=none
    OMPI_MCA_pml=ob1
    OMPI_MCA_btl=self,vader
    # LeakSanitizer of GCC 12 may crash on thread-local memory of libraries that were opened at run time.
    ASAN_OPTIONS=intercept_tls_get_addr=0
    "LSAN_OPTIONS=suppressions=\"${CMAKE_SOURCE_DIR}/tests/lsan.supp\":print_suppressions=0"
    "TSAN_OPTIONS=suppressions=\"${CMAKE_SOURCE_DIR}/tests/tsan.supp\":ignore_noninstrumented_modules=1")

function(aorta_rank_environment)
  set_tests_properties(${ARGV} PROPERTIES ENVIRONMENT "${AORTA_RANK_ENVIRONMENT}")
endfunction()

function(aorta_rank_test name program)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "RANKS;ARGS")
  foreach(ranks ${arg_RANKS})
    set(launcher)
    if(ranks GREATER 1)
      if(NOT AORTA_MPIRUN)
        message(STATUS "no mpirun: ${name}.${ranks} is left out")
        continue()
      endif()
      set(launcher ${AORTA_MPIRUN} -n ${ranks})
    endif()
    add_test(NAME ${name}.${ranks} COMMAND ${launcher} $<TARGET_FILE:${program}> ${arg_ARGS})
    if(ranks GREATER 1)
      set_tests_properties(${name}.${ranks} PROPERTIES PROCESSORS 2) # of more ranks most wait
    endif()
    aorta_rank_environment(${name}.${ranks})
  endforeach()
endfunction()
