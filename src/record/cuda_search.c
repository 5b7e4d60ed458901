#include "record/cuda_search.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAMILY_MAX = 4096 };

static pid_t parent_of(pid_t pid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file) return -1;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    const char *behind_name = strrchr(text, ')'); /* then state and parent: proc(5) */
    return behind_name && strlen(behind_name) > 4 ? (pid_t)strtol(behind_name + 4, NULL, 10) : -1;
}

static bool is_in(const pid_t *family, int count, pid_t pid) {
    for (int i = 0; i < count; i++)
        if (family[i] == pid) return true;
    return false;
}

/* The processes of this host whose ancestors lead to `root`. Numbers mostly grow from parent to child, so one pass
 * finds nearly all; the loop finds the remaining ones. */
static int find_family(pid_t root, pid_t family[FAMILY_MAX]) {
    int count = 1, before = 0;
    family[0] = root;
    while (count != before) {
        before = count;
        DIR *directory = opendir("/proc");
        if (!directory) return count;
        for (const struct dirent *entry; (entry = readdir(directory)) && count < FAMILY_MAX;) {
            if (!isdigit((unsigned char)entry->d_name[0])) continue;
            pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
            if (!is_in(family, count, pid) && is_in(family, count, parent_of(pid))) family[count++] = pid;
        }
        closedir(directory);
    }
    return count;
}

static bool has_driver(pid_t pid) {
    char path[64], *line = NULL;
    size_t capacity = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && !found && getline(&line, &capacity, file) > 0) found = strstr(line, "/libcuda.so") != NULL;
    if (file) fclose(file);
    free(line);
    return found;
}

static bool has_variable(pid_t pid, const char *variable) {
    char path[64], *entry = NULL;
    size_t capacity = 0, length = strlen(variable);
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && !found && getdelim(&entry, &capacity, '\0', file) > 0)
        found = strncmp(entry, variable, length) == 0 && entry[length] == '=';
    if (file) fclose(file);
    free(entry);
    return found;
}

void aorta_cuda_search_look(struct aorta_cuda_search *search, pid_t root, const char *variable) {
    pid_t family[FAMILY_MAX];
    int count = find_family(root, family);
    search->looks++;
    for (int i = 0; i < count && !search->driver_pid; i++) {
        if (!has_driver(family[i])) continue;
        search->driver_pid = family[i];
        search->dropped = !has_variable(family[i], variable);
    }
}
