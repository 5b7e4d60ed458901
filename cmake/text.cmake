# cmake -DINPUT=formats.md -DNAME=aorta_text_formats -DOUTPUT=formats.c -P text.cmake
#
# Writes a C file that defines `const char NAME[]` with the text of INPUT.
cmake_policy(VERSION 3.22)
file(READ "${INPUT}" text)
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
file(WRITE "${OUTPUT}.tmp" "extern const char ${NAME}[];\nconst char ${NAME}[] =\n    \"${text}\";\n")
file(RENAME "${OUTPUT}.tmp" "${OUTPUT}")
