"""The queries of `phases`, each of which walks the graph of objects.

A query is called with a `phases_model.Site` and the `Library` behind it, from
which it takes positions only.  It returns the values that it found, in the
library's order, and how many users, groups, persons, conferences, sessions and
contributions it visited.
"""
from indico_zodbrepl.dataplane.benchmarks.phases_library import PAGE


def group_members(site, _):
    """Return the number of different members of each group, including those of its subgroups."""
    found, looked_at = [], 0
    for group in site.groups.values():
        members, groups = set(), _closure(group, lambda each: each.subgroups)
        for each in groups:
            users = each.users.values()
            members.update(user.name for user in users)
            looked_at += 1 + len(users)
        found.append(len(members))
    return found, looked_at


def user_groups(site, _):
    """Return the number of groups of each user, direct and indirect."""
    found, looked_at = [], 0
    for user in site.users.values():
        groups = set()
        for group in user.groups.values():
            groups.update(each.name for each in _closure(group, lambda each: each.parents))
        found.append(len(groups))
        looked_at += 1 + len(groups)
    return found, looked_at


def conference_contributions(site, _):
    """Return the titles of all contributions of each conference, in order."""
    found, looked_at = [], 0
    for conference in site.conferences.values():
        looked_at += 1
        for session in conference.sessions:
            found.extend(each.title for each in session.contributions)
            looked_at += 1 + len(session.contributions)
    return found, looked_at


def author_conferences(site, _):
    """Return the number of conferences in which each person has contributions."""
    found, looked_at = [], 0
    for person in site.persons.values():
        titles = set()
        for contribution in person.contributions.values():
            titles.add(contribution.session.conference.title)
            looked_at += 3
        found.append(len(titles))
        looked_at += 1
    return found, looked_at


def sequence_walk(site, _):
    """Return the titles of all contributions by date."""
    found = [each.title for each in site.sequence.values()]
    return found, len(found)


def sequence_pages(site, library):
    """Return the titles of pages of the sequence."""
    found = [each.title for start in library.pages
             for each in site.sequence.values(start, start + PAGE, excludemax=True)]
    return found, len(found)


def sequence_picks(site, library):
    """Return the titles at random positions of the sequence."""
    found = [site.sequence[each].title for each in library.picks]
    return found, len(found)


def _closure(group, following):
    """Return a group and all that can be reached from it, each once."""
    found, waiting = {group.name: group}, [group]
    while waiting:
        for name, each in following(waiting.pop()).items():
            if name not in found:
                found[name] = each
                waiting.append(each)
    return found.values()


QUERIES = {
    'group-members': group_members,
    'user-groups': user_groups,
    'conference-contributions': conference_contributions,
    'author-conferences': author_conferences,
    'sequence-walk': sequence_walk,
    'sequence-pages': sequence_pages,
    'sequence-picks': sequence_picks,
}
